package wire

// CNPReserved is the number of reserved bytes, sent as zero, after the BTH of a congestion notification packet (IBTA
// A17.9.3).
const CNPReserved = 16

// AppendCNP appends a congestion notification packet without its ICRC, 28 bytes, with p's DestQPN and PKey. BECN is
// set, and the PSN is 0 and has no meaning (IBTA A17.9.3).
func AppendCNP(dst []byte, p *Packet) []byte {
	cnp := Packet{Opcode: CNP, DestQPN: p.DestQPN, PKey: p.PKey, BECN: true}
	dst = AppendHeaders(dst, &cnp)
	return append(dst, make([]byte, CNPReserved)...)
}

// The ECN field of an IP header's type of service (RFC 3168, 5).
const (
	ECNMask = 0x03
	ECT0    = 0x02 // ECN-capable transport
)
