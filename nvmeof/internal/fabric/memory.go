package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// targetLayout is the layout of the slab of a controller's queue: the in-capsule buffers first, each on its own pages
// so that an O_DIRECT write can use it directly, then the commands, then the responses.
type targetLayout struct {
	stride    int // from one in-capsule buffer to the next
	commands  int // offset
	responses int // offset
	size      int
}

func makeTargetLayout(c *TargetConfig) (l targetLayout) {
	receives := c.Depth
	if c.Shared != nil {
		receives = 0
	}
	l.stride = (c.InCapsule + shard.PageSize - 1) &^ (shard.PageSize - 1)
	l.commands = receives * l.stride
	l.responses = l.commands + receives*capsule.CommandSize
	l.size = l.responses + c.commands()*capsule.CompletionSize
	return l
}

// targetMemory is the registered memory of a controller's queue, or of shared receives, which have no responses.
type targetMemory struct {
	layout    targetLayout
	inCapsule int
	slab      *shard.Slab
	region    rdmatransport.MemoryRegion
	mem       []byte
	key       rdmatransport.LKey
	recvs     []rdmatransport.SGE // two of each receive
}

func (m *targetMemory) init(c *TargetConfig) error {
	slab, err := shard.NewSlab(c.Memory())
	if err != nil {
		return err
	}
	// No remote access rights: the provider refuses every remote access to this memory.
	region, err := c.Domain.Register(slab.Bytes(), rdmatransport.AccessLocalWrite)
	if err != nil {
		return errors.Join(err, slab.Close())
	}
	*m = targetMemory{
		layout: c.layout(), inCapsule: c.InCapsule,
		slab: slab, region: region, mem: slab.Bytes(), key: region.LKey(),
	}
	m.makeRecvs()
	return nil
}

func (m *targetMemory) makeRecvs() {
	n := (m.layout.responses - m.layout.commands) / capsule.CommandSize
	m.recvs = make([]rdmatransport.SGE, 0, 2*n)
	for i := range n {
		m.recvs = append(m.recvs, m.sge(m.command(i)), m.sge(m.data(i)))
	}
}

func (m *targetMemory) sge(b []byte) rdmatransport.SGE {
	return rdmatransport.SGE{Buf: b, LKey: m.key}
}

// recvSGL returns the scatter list of receive i.
func (m *targetMemory) recvSGL(i int) []rdmatransport.SGE {
	n := 2
	if m.inCapsule == 0 {
		n = 1
	}
	return m.recvs[2*i : 2*i+n]
}

func (m *targetMemory) close() error {
	if m.slab == nil {
		return nil
	}
	err := errors.Join(m.region.Deregister(), m.slab.Close())
	m.slab = nil
	return err
}

// command returns the buffer of receive i for the command's 64 bytes.
func (m *targetMemory) command(i int) []byte {
	return part(m.mem, m.layout.commands+i*capsule.CommandSize, capsule.CommandSize)
}

// data returns the buffer of receive i for what follows the command.
func (m *targetMemory) data(i int) []byte {
	return part(m.mem, i*m.layout.stride, m.inCapsule)
}

// response returns the buffer of context i for its response capsule.
func (m *targetMemory) response(i int) []byte {
	return part(m.mem, m.layout.responses+i*capsule.CompletionSize, capsule.CompletionSize)
}

func part(b []byte, off, n int) []byte { return b[off : off+n : off+n] }
