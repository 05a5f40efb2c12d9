package host

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

const adminDepth = nvmeof.AdminQueueDepth

// limits are what a controller's Identify data allows.
type limits struct {
	write     int // bytes of one command whose data we send
	read      int // bytes of one command whose data the controller sends
	zeroes    int // bytes of one Write Zeroes
	verify    int // bytes of one Verify
	trim      int // blocks of one range of Dataset Management
	inCapsule int // bytes of data in a capsule
	parts     int // of one command's data
	mqes      int // entries of a queue
	maxCmd    int // commands outstanding; 0: no statement
	zeroesOK  bool
	trimOK    bool
	dsm       capsule.IdentifyNVMController // of Dataset Management; 0: no statement
}

// maxParts bounds the parts of a command's data: each has a key that takes its time to
// make and to end.
const maxParts = 8

// setParts takes MSDBD, 0 for no bound. The descriptors go into the capsule.
func (l *limits) setParts(msdbd uint8) {
	l.parts = maxParts
	if msdbd > 0 {
		l.parts = min(l.parts, int(msdbd))
	}
	l.parts = max(1, min(l.parts, l.inCapsule/capsule.SGLSize))
}

// descriptorsOf is the same for a queue: admin commands have one.
func (l *limits) descriptorsOf(id capsule.QID) int {
	if id == 0 {
		return 1
	}
	return l.parts
}

func (l *limits) queueDepth(want int) int {
	want = min(want, l.mqes)
	if l.maxCmd > 0 {
		want = min(want, l.maxCmd)
	}
	return max(want, 2)
}

// Admin sends a command on the admin queue; data, if any, goes the way that the
// opcode says. The completion is valid with a [*StatusError] too. When ctx ends
// first the command is aborted, but not waited for, and its data is dropped.
func (c *Controller) Admin(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	if err := c.mayExecute(c.admin, &cmd, data); err != nil {
		return capsule.Completion{}, err
	}
	return c.admin.execute(ctx, cmd, data)
}

// IdentifyData sends an Identify command and returns its 4096 bytes.
func (c *Controller) IdentifyData(ctx context.Context, id capsule.NSID, f capsule.Identify) ([]byte, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), NSID: id}
	f.Put(&cmd)
	b := make([]byte, capsule.IdentifySize)
	if _, err := c.Admin(ctx, cmd, b); err != nil {
		return nil, err
	}
	return b, nil
}

// learn reads the controller's Identify data and judges it.
func (c *Controller) learn(ctx context.Context) error {
	c.limits = limits{write: capsule.IdentifySize, read: capsule.IdentifySize}
	b, err := c.IdentifyData(ctx, 0, capsule.Identify{CNS: capsule.CNSController})
	if err != nil {
		return err
	}
	if c.identify, err = capsule.DecodeIdentifyController(b); err != nil {
		return err
	}
	if err := c.judge(); err != nil {
		return refuse(err)
	}
	c.setLimits()
	if c.identify.ONCS&(capsule.ONCSWriteZeroes|capsule.ONCSVerify|capsule.ONCSDatasetManagement) != 0 {
		c.learnNVM(ctx)
	}
	return nil
}

// Smallest capsules: a command and a completion, in units of 16 bytes (NVMe base
// 2.0, 5.17.2.1).
const (
	minIOCCSZ = capsule.CommandSize / 16
	minIORCSZ = capsule.CompletionSize / 16
)

// judge refuses what cannot work, in words.
func (c *Controller) judge() error {
	id := &c.identify
	if id.CNTLID != c.cntlid {
		return fmt.Errorf("controller says that it is %d in Identify data, but %d in Connect", id.CNTLID, c.cntlid)
	}
	if id.SGLS&capsule.SGLSKeyed == 0 {
		return errors.New("controller does not support keyed SGLs, without which NVMe over RDMA has no data")
	}
	if id.CNTRLTYPE == capsule.ControllerTypeDiscovery || c.options.NQN == nvmeof.DiscoveryNQN {
		return nil
	}
	switch {
	case id.IOCCSZ < minIOCCSZ:
		return fmt.Errorf("controller takes I/O capsules of %d bytes: too few for a command", id.IOCCSZ*16)
	case id.IORCSZ < minIORCSZ:
		return fmt.Errorf("controller sends I/O responses of %d bytes: too few for a completion", id.IORCSZ*16)
	case id.ICDOFF != 0:
		return fmt.Errorf("controller wants in-capsule data at offset %d, which this host cannot do", id.ICDOFF*16)
	case id.KAS == 0 && c.options.keepAlive() > 0:
		return errors.New("controller does not support keep alive; connect without (keep-alive-tmo 0)")
	case id.SQES&0xf > submissionEntry || id.SQES>>4 < submissionEntry:
		return fmt.Errorf("controller takes submission queue entries of 2^%d to 2^%d bytes, not 64", id.SQES&0xf, id.SQES>>4)
	}
	return nil
}

func (c *Controller) setLimits() {
	id, l := &c.identify, &c.limits
	l.write = shard.MaxBuffer
	// MDTS is an exponent of 2 in units of the smallest page, 0 without bound.
	if id.MDTS > 0 && id.MDTS < 8 {
		l.write = capsule.IdentifySize << id.MDTS
	}
	l.read, l.zeroes, l.verify, l.trim = l.write, l.write, math.MaxInt, min(math.MaxUint32, math.MaxInt)
	// Half of what may be on its way to us, so that two commands can overlap.
	if budget := c.admin.shard.Budget().Limit(); budget > 0 {
		l.read = min(l.read, max(logChunk, budget/2&^(logChunk-1)))
	}
	if id.SGLS&capsule.SGLSOffset != 0 {
		extra := (uint64(id.IOCCSZ) - minIOCCSZ) * 16
		l.inCapsule = int(min(extra, nvmeof.MaxInCapsule))
	}
	l.setParts(id.MSDBD)
	l.mqes = int(c.cap.Fields().MQES) + 1
	l.maxCmd = int(id.MAXCMD)
	l.zeroesOK = id.ONCS&capsule.ONCSWriteZeroes != 0
	l.trimOK = id.ONCS&capsule.ONCSDatasetManagement != 0
}

// learnNVM asks for bounds of the NVM command set, which older controllers do not
// tell: theirs of Write Zeroes is that of a transfer.
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
		l.zeroes = logChunk << min(nvm.WZSL, 16)
	}
	if nvm.VSL > 0 {
		l.verify = logChunk << min(nvm.VSL, 16)
	}
	l.dsm = nvm
	if nvm.DMRSL > 0 {
		l.trim = int(min(uint64(nvm.DMRSL), math.MaxInt))
	}
	if nvm.DMSL > 0 {
		l.trim = int(min(uint64(l.trim), nvm.DMSL))
	}
}

// requestQueues asks for I/O queues and returns how many there may be.
func (c *Controller) requestQueues(ctx context.Context, n int) (int, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures)}
	want := capsule.QueueCounts{Submission: n, Completion: n}
	capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: want.Value()}.Put(&cmd)
	done, err := c.Admin(ctx, cmd, nil)
	if err != nil {
		return 0, err
	}
	got := capsule.ParseQueueCounts(done.DW0())
	return min(n, got.Submission, got.Completion), nil
}
