package capsule

import "fmt"

// ANAGroup identifies an ANA group; identifiers start at 1.
type ANAGroup uint32

// ANAState is the access state of the namespaces of a group through a controller.
type ANAState uint8

const (
	ANAOptimized      ANAState = 0x1
	ANANonOptimized   ANAState = 0x2
	ANAInaccessible   ANAState = 0x3
	ANAPersistentLoss ANAState = 0x4
	ANAChange         ANAState = 0xf
)

// ANALogGroupsOnly is the LSP bit that requests the log without namespaces.
const ANALogGroupsOnly uint8 = 1 << 0

// ANALogHeader is the header of the Asymmetric Namespace Access log (NVMe base 2.0, 5.16.1.13).
type ANALogHeader struct {
	CHGCNT uint64
	NGRPS  uint16 // descriptors that follow
}

func (h *ANALogHeader) fields(l layout) {
	u64(l, 0, &h.CHGCNT)
	u16(l, 8, &h.NGRPS)
}

// DecodeANALogHeader decodes the 16 bytes at the start of b.
func DecodeANALogHeader(b []byte) (h ANALogHeader, err error) {
	l, err := decoder(b, ANALogHeaderSize)
	if err == nil {
		h.fields(l)
	}
	return h, err
}

// Encode fills the first 16 bytes of b.
func (h ANALogHeader) Encode(b []byte) { h.fields(encoder(b, ANALogHeaderSize)) }

// ANADescriptor is the descriptor of one group in that log. Its 32 bytes are followed by NNSIDS namespace identifiers
// of 4 bytes, in ascending order.
type ANADescriptor struct {
	Group  ANAGroup
	NNSIDS uint32
	CHGCNT uint64
	State  ANAState
}

func (d *ANADescriptor) fields(l layout) {
	u32(l, 0, &d.Group)
	u32(l, 4, &d.NNSIDS)
	u64(l, 8, &d.CHGCNT)
	u8(l, 16, &d.State)
}

// DecodeANADescriptor decodes the 32 bytes at the start of b.
func DecodeANADescriptor(b []byte) (d ANADescriptor, err error) {
	l, err := decoder(b, ANADescriptorHeader)
	if err == nil {
		d.fields(l)
	}
	return d, err
}

// Encode fills the first 32 bytes of b.
func (d ANADescriptor) Encode(b []byte) { d.fields(encoder(b, ANADescriptorHeader)) }

// String returns the name of the state as in nvmetcli and sysfs.
func (s ANAState) String() string {
	switch s {
	case ANAOptimized:
		return "optimized"
	case ANANonOptimized:
		return "non-optimized"
	case ANAInaccessible:
		return "inaccessible"
	case ANAPersistentLoss:
		return "persistent-loss"
	case ANAChange:
		return "change"
	}
	return fmt.Sprintf("ANA state %#x", uint8(s))
}
