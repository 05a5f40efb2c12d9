package capsule

import (
	"encoding/binary"
)

// A PersistentAction is what Get Log Page does with the context of the Persistent Event log
// (NVMe base 2.0, 5.16.1.14).
type PersistentAction uint8

// Actions, in the low bits of the Log Specific Field.
const (
	PersistentRead      PersistentAction = 0 // read from the existing context
	PersistentEstablish PersistentAction = 1 // establish a context and read
	PersistentRelease   PersistentAction = 2
	PersistentHeader    PersistentAction = 3 // establish a context and read the header
)

// A PersistentType is the type of a persistent event.
type PersistentType uint8

// Types of persistent events.
const (
	PersistentSMART           PersistentType = 0x01 // SMART / Health Log Snapshot
	PersistentPowerOn         PersistentType = 0x04 // Power-on or Reset
	PersistentChangeNamespace PersistentType = 0x06
	PersistentVendor          PersistentType = 0xde
)

// Lengths of the log's parts, in bytes.
const (
	PersistentHeaderSize      = 512
	PersistentEventHeaderSize = 24
	persistentHeaderRest      = PersistentHeaderSize - 20 // LHL
	persistentEventRest       = PersistentEventHeaderSize - 3
	persistentRevision        = 3 // of the page: that of NVMe base 2.0
)

// PersistentLog is the header of the log.
type PersistentLog struct {
	Events       uint32 // TNEV
	Length       uint64 // TLL: of the log with this header, in bytes
	Timestamp    uint64 // milliseconds since 1970
	PowerOnHours uint64
	PowerCycles  uint64
	SN           [20]byte
	MN           [40]byte
	SubNQN       NQNField
	Supported    []PersistentType
}

// Encode fills the first 512 bytes of b.
func (p *PersistentLog) Encode(b []byte) {
	clear(b[:PersistentHeaderSize])
	b[0], b[16] = uint8(LogPersistentEvent), persistentRevision
	le := binary.LittleEndian
	le.PutUint32(b[4:], p.Events)
	le.PutUint64(b[8:], p.Length)
	le.PutUint16(b[18:], persistentHeaderRest)
	le.PutUint64(b[20:], persistentTime(p.Timestamp))
	le.PutUint64(b[28:], p.PowerOnHours)
	le.PutUint64(b[44:], p.PowerCycles)
	copy(b[56:], p.SN[:])
	copy(b[76:], p.MN[:])
	copy(b[116:372], p.SubNQN[:])
	for _, t := range p.Supported {
		b[480+int(t)/8] |= 1 << (t % 8)
	}
}

// persistentTime returns a time in the format of the Timestamp feature, with an origin other than the controller's
// reset.
func persistentTime(millis uint64) uint64 { return millis&MaxTimestampMillis | 1<<49 }

// A PersistentEvent is an event of the log, with the data of its type.
type PersistentEvent struct {
	Type      PersistentType
	CNTLID    ControllerID
	Timestamp uint64 // milliseconds since 1970
	PortID    uint16
	Data      []byte
}

// Append adds the event to b.
func (e *PersistentEvent) Append(b []byte) []byte {
	var h [PersistentEventHeaderSize]byte
	h[0], h[1], h[2] = uint8(e.Type), 1, persistentEventRest
	le := binary.LittleEndian
	le.PutUint16(h[4:], uint16(e.CNTLID))
	le.PutUint64(h[6:], persistentTime(e.Timestamp))
	le.PutUint16(h[14:], e.PortID)
	le.PutUint16(h[22:], uint16(len(e.Data)))
	return append(append(b, h[:]...), e.Data...)
}

// PersistentPowerOnData returns the data of a Power-on or Reset event for one controller.
func PersistentPowerOnData(firmware string, id ControllerID, cycle uint32, millis uint64) []byte {
	b := make([]byte, 8+36)
	PutText(b[:8], firmware)
	binary.LittleEndian.PutUint16(b[8:], uint16(id))
	binary.LittleEndian.PutUint32(b[24:], cycle)
	binary.LittleEndian.PutUint64(b[36:], persistentTime(millis))
	return b
}

// PersistentNamespaceData returns the data of a Change Namespace event: a namespace was deleted, or was created with a
// size in blocks.
func PersistentNamespaceData(id NSID, group ANAGroup, blocks uint64, deleted bool) []byte {
	b := make([]byte, 48)
	le := binary.LittleEndian
	if deleted {
		b[0] = 1 // SEL of Namespace Management
	}
	le.PutUint64(b[8:], blocks)
	le.PutUint64(b[24:], blocks)
	le.PutUint32(b[36:], uint32(group))
	le.PutUint32(b[44:], uint32(id))
	return b
}

// PersistentText returns the data of a vendor specific event: text in ASCII.
func PersistentText(code uint16, s string) []byte {
	const ascii = 2
	b := make([]byte, 6, 6+len(s))
	binary.LittleEndian.PutUint16(b, code)
	b[2] = ascii
	binary.LittleEndian.PutUint16(b[4:], uint16(len(s)))
	return append(b, s...)
}
