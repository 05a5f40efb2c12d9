package fabric

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A remote is a range of host memory that a keyed descriptor names.
type remote struct {
	addr   uint64
	length int
	key    rdmatransport.RKey
}

// data describes where a command's data is.
type data struct {
	length     int      // total number of bytes described
	inCapsule  []byte   // host to controller, arrived with the command
	remotes    []remote // in host memory
	invalidate bool     // the response invalidates key at the host
	key        rdmatransport.RKey
}

// dataLimits are the limits that a target sets for SGLs.
type dataLimits struct {
	inCapsule   int // bytes
	total       int // bytes
	descriptors int // in a list; below 2: no lists
}

// interpret reads a command's SGL. received is what followed the command in its capsule; passing exactly that ensures
// that nothing of an earlier capsule is taken for data. The returned status says what is wrong, Do Not Retry included.
func (d *data) interpret(c *capsule.Command, received []byte, l dataLimits) capsule.Status {
	*d = data{remotes: d.remotes[:0]}
	// NVMe base 2.0, 3.3.3.1: PRPs are not used over fabrics. Metadata SGLs need a capability that this target does not
	// report.
	if c.Flags.PSDT() != capsule.PSDTSGLContiguous {
		return capsule.StatusInvalidField | capsule.StatusDNR
	}
	kind, status := c.SGL.Classify()
	switch kind {
	case capsule.SGLKindNone:
	case capsule.SGLKindKeyed, capsule.SGLKindKeyedInvalidate:
		status = d.addKeyed(c.SGL, l)
	case capsule.SGLKindInCapsule:
		status = d.setInCapsule(c, received, l)
	case capsule.SGLKindLastSegment:
		status = d.addList(c.SGL, received, l)
	}
	if !status.OK() {
		*d = data{remotes: d.remotes[:0]}
		return status | capsule.StatusDNR
	}
	return status
}

func (d *data) addKeyed(s capsule.SGL, l dataLimits) capsule.Status {
	n := int(s.Length())
	if n > l.total-d.length { // more than MDTS (NVMe base 2.0, 5.17.2.1)
		return capsule.StatusInvalidField
	}
	if s.Subtype() == capsule.SGLInvalidate && !d.invalidate {
		// A response can invalidate one key; the host invalidates the others itself.
		d.invalidate, d.key = true, rdmatransport.RKey(s.Key())
	}
	if n > 0 { // an RDMA operation of length zero hangs some adapters
		d.remotes = append(d.remotes, remote{s.Address, n, rdmatransport.RKey(s.Key())})
		d.length += n
	}
	return capsule.StatusSuccess
}

func (d *data) setInCapsule(c *capsule.Command, received []byte, l dataLimits) capsule.Status {
	off, n := c.SGL.Address, uint64(c.SGL.Length())
	switch {
	case n > 0 && direction(c) != capsule.HostToController:
		return capsule.StatusInvalidField
	case off > uint64(l.inCapsule):
		return capsule.StatusSGLOffset
	case !capsule.InRange(off, n, uint64(l.inCapsule)), !capsule.InRange(off, n, uint64(len(received))):
		return capsule.StatusSGLDataLength
	}
	d.inCapsule = received[off : off+n : off+n]
	d.length = int(n)
	return capsule.StatusSuccess
}

// addList reads a list of keyed descriptors in the capsule.
func (d *data) addList(s capsule.SGL, received []byte, l dataLimits) capsule.Status {
	off, n := s.Address, uint64(s.Length())
	switch {
	case l.descriptors < 2:
		return capsule.StatusSGLTypeInvalid
	case n == 0 || n%capsule.SGLSize != 0:
		return capsule.StatusSGLSegmentInvalid
	case n/capsule.SGLSize > uint64(l.descriptors):
		return capsule.StatusSGLCountInvalid
	case !capsule.InRange(off, n, uint64(len(received))):
		return capsule.StatusSGLSegmentInvalid
	}
	d.remotes = slices.Grow(d.remotes, l.descriptors) // once; see Footprint
	for list := received[off : off+n]; len(list) > 0; list = list[capsule.SGLSize:] {
		e, err := capsule.DecodeSGL(list)
		if err != nil {
			return capsule.StatusSGLSegmentInvalid
		}
		kind, status := e.Classify()
		switch kind {
		case capsule.SGLKindNone, capsule.SGLKindKeyed, capsule.SGLKindKeyedInvalidate:
			status = d.addKeyed(e, l)
		case capsule.SGLKindInCapsule, capsule.SGLKindLastSegment:
			status = capsule.StatusSGLTypeInvalid
		}
		if !status.OK() {
			return status
		}
	}
	return capsule.StatusSuccess
}

// direction returns the direction of a command's data.
func direction(c *capsule.Command) capsule.Direction {
	if c.Opcode == capsule.OpcodeFabrics {
		return c.FabricsType().Direction()
	}
	return capsule.AdminOpcode(c.Opcode).Direction()
}
