package capsule

import "encoding/binary"

// NamespaceListEntries is how many namespaces one list holds.
const NamespaceListEntries = 1024

// NamespaceListSize is the length of a namespace list: of Identify CNS 02h and
// of the Changed Namespace List log.
const NamespaceListSize = 4 * NamespaceListEntries

// ControllerListSize is the length of a controller list: of Identify CNS 12h and
// 13h.
const ControllerListSize = 4096

// NSIDAt returns entry i of the namespace list in b, or 0, which ends it, where
// the bytes or the list have no such entry.
func NSIDAt(b []byte, i int) NSID {
	if i < 0 || i >= NamespaceListEntries || 4*i+4 > len(b) {
		return 0
	}
	return NSID(binary.LittleEndian.Uint32(b[4*i:]))
}

// PutNamespaceList fills the first 4096 bytes of b with as many of ids as a
// list holds. They are to ascend.
func PutNamespaceList(b []byte, ids []NSID) {
	b = b[:NamespaceListSize]
	clear(b)
	PutNSIDs(b, ids[:min(len(ids), NamespaceListEntries)])
}

// PutNSIDs stores identifiers one after the other: 4 bytes of b for each.
func PutNSIDs(b []byte, ids []NSID) {
	for i, id := range ids {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(id))
	}
}

// PutControllerList stores a controller list: how many entries follow, then the
// identifiers, which must be ascending, 2 bytes each. It fills the first 4096
// bytes of b; identifiers beyond the 2047th have no room.
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

// Length is how many bytes an identifier of that type has, 0 for unknown ones.
func (t DescriptorType) Length() int {
	if int(t) < len(descriptorLengths) {
		return descriptorLengths[t]
	}
	return 0
}

var descriptorLengths = [...]int{DescriptorEUI64: 8, DescriptorNGUID: 16, DescriptorUUID: 16, DescriptorCSI: 1}

const descriptorHeader = 4

// NextDescriptor reads the namespace identification descriptor at the start of
// b (Identify CNS 03h; NVMe base 2.0, 5.17.2.3) and returns its identifier, a
// part of b, and what follows. The list ends where the type is 0 and rest nil.
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

// PutDescriptor writes a descriptor to the start of b and returns what follows.
func PutDescriptor(b []byte, t DescriptorType, id []byte) []byte {
	end := descriptorHeader + len(id)
	b[0], b[1], b[2], b[3] = byte(t), byte(len(id)), 0, 0
	copy(b[descriptorHeader:end], id)
	return b[end:]
}
