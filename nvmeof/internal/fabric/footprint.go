package fabric

import (
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Bytes of an entry of a send or receive queue for a provider that does not tell: a work request, its completion, and
// for an RNIC's send what the driver sets aside for inline data. Scatter list elements add to it.
const (
	sendEntry = 256
	recvEntry = 128
)

// Footprint returns how many bytes of memory the queue takes: those of Memory, and the most that its contexts and its
// queue pair take. Each is what the handler keeps for each context.
func (c *TargetConfig) Footprint(each int) int {
	n := c.commands()
	context := int(unsafe.Sizeof(Command{})) + max(1, c.MaxDescriptors)*int(unsafe.Sizeof(remote{})) + c.pieces()*sgeSize
	total := c.Memory() + int(unsafe.Sizeof(TargetQueue{})) + n*(context+each) + hashSize(n)*int(unsafe.Sizeof((*Command)(nil))) +
		c.Depth*int(unsafe.Sizeof(arrival{})) + c.Attrs.MaxReadsOut*int(unsafe.Sizeof(flyingRead{}))
	if c.Shared == nil {
		total += c.receiveLists(c.Depth)
	}
	return total + c.pairMemory()
}

const sgeSize = int(unsafe.Sizeof(rdmatransport.SGE{}))

// receiveLists returns the size of the work requests of n receives.
func (c *TargetConfig) receiveLists(n int) int {
	return n * (2*sgeSize + int(unsafe.Sizeof(rdmatransport.RecvWR{})))
}

// pairMemory returns how many bytes the queue pair takes.
func (c *TargetConfig) pairMemory() int {
	p := c.pairConfig()
	if d, ok := c.Domain.(rdmatransport.MeasuredDomain); ok {
		return d.QueuePairMemory(p)
	}
	total := p.MaxSend * (sendEntry + p.MaxSGE*sgeSize)
	if c.Shared == nil {
		total += p.MaxRecv * (recvEntry + p.MaxSGE*sgeSize)
	}
	return total
}

// Footprint returns how many bytes of memory the receives take: those of Memory and of their lists.
func (c *SharedConfig) Footprint() int {
	l := c.layout()
	return l.Memory() + l.receiveLists(c.Receives) + c.Receives*(recvEntry+2*sgeSize)
}
