package host

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// limits are the limits in a controller's Identify data and capabilities.
type limits struct {
	operation.Limits
	inCapsule int // bytes of in-capsule data
	mqes      int // maximum queue entries
	maxCmd    int // maximum outstanding commands; 0: not stated
	zeroesOK  bool
	trimOK    bool
	dsm       capsule.IdentifyNVMController // of Dataset Management; 0: not stated
}

// maxParts bounds the SGL descriptors of a command's data: binding and invalidating the key of each takes time.
const maxParts = 8

// setParts applies MSDBD, 0 for no bound. The descriptors must fit into the capsule.
func (l *limits) setParts(msdbd uint8) {
	l.Parts = maxParts
	if msdbd > 0 {
		l.Parts = min(l.Parts, int(msdbd))
	}
	l.Parts = max(1, min(l.Parts, l.inCapsule/capsule.SGLSize))
}

// descriptorsOf returns the maximum number of SGL descriptors of a queue's commands: admin commands have one.
func (l *limits) descriptorsOf(id capsule.QID) int {
	if id == 0 {
		return 1
	}
	return l.Parts
}

func (l *limits) queueDepth(want int) int {
	want = min(want, l.mqes)
	if l.maxCmd > 0 {
		want = min(want, l.maxCmd)
	}
	return max(want, 2)
}

// learn reads the controller's Identify data and checks it.
func (c *Controller) learn(ctx context.Context) error {
	c.limits = limits{Limits: operation.Limits{Write: capsule.IdentifySize, Read: capsule.IdentifySize}}
	b, err := c.IdentifyData(ctx, 0, capsule.Identify{CNS: capsule.CNSController})
	if err != nil {
		return err
	}
	if c.identify, err = capsule.DecodeIdentifyController(b); err != nil {
		return err
	}
	if err := judge(&c.identify, c.cntlid, &c.options); err != nil {
		return refuse(err)
	}
	c.limits = limitsOf(&c.identify, c.cap, c.queues.Admin().Shard.Budget().Limit())
	c.queues.Aborts.SetLimit(c.identify.ACL)
	if c.identify.ONCS&(capsule.ONCSWriteZeroes|capsule.ONCSVerify|capsule.ONCSDatasetManagement) != 0 {
		c.learnNVM(ctx)
	}
	return nil
}

// Minimum capsule sizes: a command and a completion, in units of 16 bytes (NVMe base 2.0, 5.17.2.1).
const (
	minIOCCSZ = capsule.CommandSize / 16
	minIORCSZ = capsule.CompletionSize / 16
)

// judge refuses controllers that this host cannot use.
func judge(id *capsule.IdentifyController, connected capsule.ControllerID, o *Options) error {
	if id.CNTLID != connected {
		return fmt.Errorf("controller identifier is %d in Identify data, but %d in the response to Connect", id.CNTLID, connected)
	}
	if id.SGLS&capsule.SGLSKeyed == 0 {
		return errors.New("controller does not support keyed SGLs, which NVMe over RDMA requires for data")
	}
	if id.CNTRLTYPE == capsule.ControllerTypeDiscovery || o.NQN == nvmeof.DiscoveryNQN {
		return nil
	}
	switch {
	case id.IOCCSZ < minIOCCSZ:
		return fmt.Errorf("controller accepts I/O capsules of %d bytes: too few for a command", id.IOCCSZ*16)
	case id.IORCSZ < minIORCSZ:
		return fmt.Errorf("controller sends I/O responses of %d bytes: too few for a completion", id.IORCSZ*16)
	case id.ICDOFF != 0:
		return fmt.Errorf("controller requires in-capsule data at offset %d, which this host does not support", id.ICDOFF*16)
	case id.KAS == 0 && o.keepAlive() > 0:
		return errors.New("controller does not support keep alive; connect without (keep-alive-tmo 0)")
	case id.SQES&0xf > submissionEntry || id.SQES>>4 < submissionEntry:
		return fmt.Errorf("controller needs submission queue entries of 2^%d to 2^%d bytes, not 64", id.SQES&0xf, id.SQES>>4)
	}
	return nil
}

// limitsOf returns the limits of a controller. budget is how many bytes may be in flight to this host, 0 for no bound.
func limitsOf(id *capsule.IdentifyController, cap capsule.CAP, budget int) (l limits) {
	l.Write = shard.MaxBuffer
	// MDTS is a power of two in units of the minimum page size; 0 means no bound.
	if id.MDTS > 0 && id.MDTS < 8 {
		l.Write = capsule.IdentifySize << id.MDTS
	}
	l.Read, l.Zeroes, l.Verify, l.Trim = l.Write, l.Write, math.MaxInt, min(math.MaxUint32, math.MaxInt)
	// Half of the budget, so that two commands can overlap.
	if budget > 0 {
		l.Read = min(l.Read, max(logChunk, budget/2&^(logChunk-1)))
	}
	if id.SGLS&capsule.SGLSOffset != 0 {
		extra := (uint64(id.IOCCSZ) - minIOCCSZ) * 16
		l.inCapsule = int(min(extra, nvmeof.MaxInCapsule))
	}
	l.setParts(id.MSDBD)
	l.mqes = int(cap.Fields().MQES) + 1
	l.maxCmd = int(id.MAXCMD)
	l.zeroesOK = id.ONCS&capsule.ONCSWriteZeroes != 0
	l.trimOK = id.ONCS&capsule.ONCSDatasetManagement != 0
	return l
}

// learnNVM reads the limits of the NVM command set. Older controllers do not report them; their limit of Write Zeroes
// is that of a transfer.
func (c *Controller) learnNVM(ctx context.Context) {
	b, err := c.IdentifyData(ctx, 0, capsule.Identify{CNS: capsule.CNSControllerCSI, CSI: capsule.CSINVM})
	if err != nil {
		return
	}
	nvm, err := capsule.DecodeIdentifyNVMController(b)
	if err != nil {
		return
	}
	l := &c.limits
	if nvm.WZSL > 0 {
		l.Zeroes = logChunk << min(nvm.WZSL, 16)
	}
	if nvm.VSL > 0 {
		l.Verify = logChunk << min(nvm.VSL, 16)
	}
	l.dsm = nvm
	if nvm.DMRSL > 0 {
		l.Trim = int(min(uint64(nvm.DMRSL), math.MaxInt))
	}
	if nvm.DMSL > 0 {
		l.Trim = int(min(uint64(l.Trim), nvm.DMSL))
	}
}
