package capsule

import "encoding/binary"

// HostBehavior is the data of the Host Behavior Support feature: what the host supports (NVMe base 2.0, 5.27.1.18).
type HostBehavior struct {
	ACRE    bool   // advanced command retry: CRD of a status selects a delay
	ETDAS   bool   // extended telemetry data area 4
	LBAFEE  bool   // namespaces in formats with extended protection information
	CDFE    uint16 // formats of Copy source ranges, one bit each; see CDFE2 and the following
	Unknown bool   // undefined bytes are set
}

// Bits of HostBehavior.CDFE: formats 2, 3 and 4.
const (
	CDFE2 uint16 = 1 << 2
	CDFE3 uint16 = 1 << 3
	CDFE4 uint16 = 1 << 4
)

// DecodeHostBehavior decodes the 512 bytes at the start of b.
func DecodeHostBehavior(b []byte) (h HostBehavior, err error) {
	l, err := decoder(b, HostBehaviorSize)
	if err != nil {
		return h, err
	}
	h = HostBehavior{ACRE: b[0] != 0, ETDAS: b[1] != 0, LBAFEE: b[2] != 0}
	u16(l, 4, &h.CDFE)
	for i, x := range l.b {
		h.Unknown = h.Unknown || x != 0 && (i == 3 || i > 5)
	}
	return h, nil
}

// Encode fills the first 512 bytes of b.
func (h HostBehavior) Encode(b []byte) {
	l := encoder(b, HostBehaviorSize)
	l.b[0], l.b[1], l.b[2] = uint8(flag(h.ACRE, 0)), uint8(flag(h.ETDAS, 0)), uint8(flag(h.LBAFEE, 0))
	u16(l, 4, &h.CDFE)
}

// Timestamp is the data of the Timestamp feature (NVMe base 2.0, 5.27.1.11).
type Timestamp struct {
	Millis  uint64 // since 1970 if Set, else since the controller's reset; 48 bits
	Set     bool   // set by a host: TIMESTAMP ORIGIN is 001b
	Stopped bool   // the controller may have stopped counting since (SYNCH)
}

// DecodeTimestamp decodes the 8 bytes at the start of b.
func DecodeTimestamp(b []byte) (Timestamp, error) {
	if len(b) < TimestampSize {
		return Timestamp{}, ErrShort
	}
	v := binary.LittleEndian.Uint64(b)
	return Timestamp{Millis: v & MaxTimestampMillis, Stopped: v>>48&1 != 0, Set: v>>49&7 == 1}, nil
}

// Encode fills the first 8 bytes of b in the form of Set Features, which contains only the milliseconds.
func (t Timestamp) Encode(b []byte) {
	binary.LittleEndian.PutUint64(b, t.Millis&MaxTimestampMillis)
}

// Value encodes CDW11.
func (t TemperatureThreshold) Value() uint32 {
	return uint32(t.Kelvins) | uint32(t.Sensor&0xf)<<16 | flag(t.Under, 20)
}
