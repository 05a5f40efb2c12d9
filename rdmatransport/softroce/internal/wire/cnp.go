package wire

// CNPReserved is how many reserved bytes, sent as zero, follow the BTH of a
// congestion notification packet (IBTA A17.9.3).
const CNPReserved = 16

// AppendCNP appends a congestion notification packet without its ICRC, 28 bytes:
// only the queue pair that it slows and the partition are its sender's to choose.
// BECN is set, the PSN is 0 and means nothing (IBTA A17.9.3).
func AppendCNP(dst []byte, p *Packet) []byte {
	cnp := Packet{Opcode: CNP, DestQPN: p.DestQPN, PKey: p.PKey, BECN: true}
	dst = AppendHeaders(dst, &cnp)
	return append(dst, make([]byte, CNPReserved)...)
}

// The ECN field of an IP header's type of service (RFC 3168, 5).
const (
	ECNMask = 0x03
	ECT0    = 0x02 // the transport understands marks
)
