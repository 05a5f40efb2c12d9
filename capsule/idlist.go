package capsule

import "encoding/binary"

// NamespaceListEntries is the number of entries of a namespace list.
const NamespaceListEntries = 1024

// NamespaceListSize is the length of a namespace list, as in Identify CNS 02h and the Changed Namespace List log.
const NamespaceListSize = 4 * NamespaceListEntries

// ControllerListSize is the length of a controller list, as in Identify CNS 12h and 13h.
const ControllerListSize = 4096

// NSIDAt returns entry i of the namespace list in b. It returns 0, which ends a list, if b or the list has no such
// entry.
func NSIDAt(b []byte, i int) NSID {
	if i < 0 || i >= NamespaceListEntries || 4*i+4 > len(b) {
		return 0
	}
	return NSID(binary.LittleEndian.Uint32(b[4*i:]))
}

// PutNamespaceList fills the first 4096 bytes of b with a list of as many of ids as fit. The ids must be in ascending
// order.
func PutNamespaceList(b []byte, ids []NSID) {
	b = b[:NamespaceListSize]
	clear(b)
	PutNSIDs(b, ids[:min(len(ids), NamespaceListEntries)])
}

// PutNSIDs stores identifiers in sequence, 4 bytes of b for each.
func PutNSIDs(b []byte, ids []NSID) {
	for i, id := range ids {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(id))
	}
}

// PutControllerList stores a controller list in the first 4096 bytes of b: the number of entries, then the identifiers,
// 2 bytes each. They must be in ascending order. Identifiers beyond the 2047th are omitted.
func PutControllerList(b []byte, ids []ControllerID) {
	b = b[:ControllerListSize]
	clear(b)
	ids = ids[:min(len(ids), ControllerListSize/2-1)]
	binary.LittleEndian.PutUint16(b, uint16(len(ids)))
	for i, id := range ids {
		binary.LittleEndian.PutUint16(b[2+2*i:], uint16(id))
	}
}

// DescriptorType is the type of a namespace identification descriptor.
type DescriptorType uint8

const (
	DescriptorEUI64 DescriptorType = 1
	DescriptorNGUID DescriptorType = 2
	DescriptorUUID  DescriptorType = 3
	DescriptorCSI   DescriptorType = 4
)

// Length returns the length in bytes of an identifier of that type, or 0 for an unknown type.
func (t DescriptorType) Length() int {
	if int(t) < len(descriptorLengths) {
		return descriptorLengths[t]
	}
	return 0
}

var descriptorLengths = [...]int{DescriptorEUI64: 8, DescriptorNGUID: 16, DescriptorUUID: 16, DescriptorCSI: 1}

const descriptorHeader = 4

// NextDescriptor decodes the namespace identification descriptor at the start of b (Identify CNS 03h; NVMe base 2.0,
// 5.17.2.3). It returns its identifier, which is a part of b, and the rest of b. At the end of the list the type is 0
// and rest is nil.
func NextDescriptor(b []byte) (t DescriptorType, id, rest []byte, err error) {
	if len(b) == 0 || b[0] == 0 {
		return 0, nil, nil, nil
	}
	if len(b) < descriptorHeader {
		return 0, nil, nil, ErrShort
	}
	n := uint64(b[1])
	if n == 0 || !InRange(descriptorHeader, n, uint64(len(b))) {
		return 0, nil, nil, ErrShort
	}
	end := descriptorHeader + int(n)
	return DescriptorType(b[0]), b[descriptorHeader:end:end], b[end:], nil
}

// PutDescriptor writes a descriptor to the start of b and returns the rest of b.
func PutDescriptor(b []byte, t DescriptorType, id []byte) []byte {
	end := descriptorHeader + len(id)
	b[0], b[1], b[2], b[3] = byte(t), byte(len(id)), 0, 0
	copy(b[descriptorHeader:end], id)
	return b[end:]
}
