package wire

// The CRC is linear: identification id instead of 0 changes the ICRC by a value that depends only on id and on the
// number of bytes after it. Read the CRC register as a polynomial over GF(2) whose bit 31 is the coefficient of x^0.
// The two identification bytes then enter as the lowest 16 bits of the register, and every following byte multiplies
// it by x^8 modulo the generator. So multiplying a difference by x^-8n undoes n bytes. The difference was caused by
// an identification if and only if the result fits those 16 bits.

const (
	generator = 0xedb88320 // x^31 ... x^0 of the IEEE polynomial, reflected
	one       = 1 << 31    // x^0

	solverWays = 64
)

// A solver caches the multiplications by x^-8n for recent packet lengths.
type solver struct {
	entries [solverWays]solverEntry
}

// A solverEntry multiplies by a constant: entry v of table[i] is the product for value v of bits 4i to 4i+3.
type solverEntry struct {
	length int // of the UDP payload; 0: empty
	table  [8][16]uint32
}

// identification returns the identification of an IPv4 packet with length bytes of UDP payload that explains the
// difference, and false if there is none.
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

// fill computes the entry. Between the identification and the ICRC are the rest of the IP header, the UDP header and
// its payload without the ICRC.
func (e *solverEntry) fill(length int) {
	e.length = length
	c := inversePower(ipv4Size - 4 + udpSize + length - ICRCSize)
	for i := range e.table {
		for v := range e.table[i] {
			e.table[i][v] = multiply(uint32(v)<<(4*i), c)
		}
	}
}

// inversePower returns x^-8n.
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

// divideByX reverses timesX: the generator's bit 31 tells which case applied.
func divideByX(a uint32) uint32 {
	carry := a >> 31
	return (a^generator&-carry)<<1 | carry
}
