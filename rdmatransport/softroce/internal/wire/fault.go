package wire

// Fault is the reason why a packet is dropped before it reaches a queue pair. OK means none.
type Fault uint8

const (
	OK            Fault = iota
	ShortPacket         // fewer bytes than the headers, pad and ICRC need
	BadVersion          // BTH transport header version is not 0
	UnknownOpcode       // reserved, or of a transport service that is not supported
	BadPad              // the pad count does not match the length
	BadICRC             // set by callers of ICRC: Parse does not check it
	BadMAD              // not a CM message, although sent to queue pair 1

	// NumFaults is the length of arrays of counters.
	NumFaults
)

var faultNames = [NumFaults]string{
	"ok", "short_packet", "bad_version", "unknown_opcode", "bad_pad", "bad_icrc", "bad_mad",
}

// String returns the fault's name as a counter label.
func (f Fault) String() string {
	if f < NumFaults {
		return faultNames[f]
	}
	return "unknown_fault"
}
