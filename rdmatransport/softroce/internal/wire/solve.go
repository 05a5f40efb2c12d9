package wire

// The CRC is linear: identification id instead of 0 changes the ICRC by a value
// that depends on id and on the number of bytes after it alone. With the CRC
// register read as a polynomial over GF(2) whose bit 31 is the coefficient of
// x^0, the two identification bytes enter as the lowest 16 bits of the register,
// and every following byte multiplies it by x^8 modulo the generator. So
// multiplying a difference by x^-8n undoes n bytes, and it was caused by an
// identification exactly if the result fits those 16 bits.

const (
	generator = 0xedb88320 // x^31 ... x^0 of the IEEE polynomial, reflected
	one       = 1 << 31    // x^0

	solverWays = 64
)

// A solver caches the multiplications by x^-8n for packet lengths in use.
type solver struct {
	entries [solverWays]solverEntry
}

// A solverEntry multiplies by a constant: entry v of table[i] is the product for v
// in bits 4i to 4i+3.
type solverEntry struct {
	length int // of the UDP payload; 0: empty
	table  [8][16]uint32
}

// identification finds what the identification of an IPv4 packet with length
// bytes of UDP payload must be to cause the difference.
func (s *solver) identification(length int, diff uint32) (uint16, bool) {
	e := &s.entries[length/4%solverWays]
	if e.length != length {
		e.fill(length)
	}
	var v uint32
	for i := range e.table {
		v ^= e.table[i][diff>>(4*i)&15]
	}
	// Byte 0 of the register is the first byte on the wire.
	return uint16(v<<8 | v>>8&0xff), v>>16 == 0
}

// fill prepares the entry: from the identification to the ICRC there are the
// rest of the IP header, the UDP header and its payload without the ICRC.
func (e *solverEntry) fill(length int) {
	e.length = length
	c := inversePower(ipv4Size - 4 + udpSize + length - ICRCSize)
	for i := range e.table {
		for v := range e.table[i] {
			e.table[i][v] = multiply(uint32(v)<<(4*i), c)
		}
	}
}

// inversePower is x^-8n.
func inversePower(n int) uint32 {
	square := uint32(one)
	for range 8 {
		square = divideByX(square)
	}
	result := uint32(one)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, square)
		}
		square = multiply(square, square)
	}
	return result
}

func multiply(a, b uint32) uint32 {
	var r uint32
	for ; a != 0; a <<= 1 {
		r ^= b & -(a >> 31)
		b = timesX(b)
	}
	return r
}

func timesX(a uint32) uint32 { return a>>1 ^ generator&-(a&1) }

// divideByX reverses timesX: the generator's bit 31 shows which way was taken.
func divideByX(a uint32) uint32 {
	carry := a >> 31
	return (a^generator&-carry)<<1 | carry
}
