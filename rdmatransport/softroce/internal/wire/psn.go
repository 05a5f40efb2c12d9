package wire

const mask24 = 1<<24 - 1

// PSN is a packet sequence number: 24 bits, wrapping (IBTA 9.7.2).
type PSN uint32

// Add returns p + n modulo 2^24.
func (p PSN) Add(n uint32) PSN { return PSN((uint32(p) + n) & mask24) }

// Sub returns p - n modulo 2^24.
func (p PSN) Sub(n uint32) PSN { return PSN((uint32(p) - n) & mask24) }

// Diff returns the signed distance p - q, from -2^23 to 2^23 - 1.
func (p PSN) Diff(q PSN) int32 { return diff24(uint32(p), uint32(q)) }

// Before reports whether p precedes q: p - q is negative.
func (p PSN) Before(q PSN) bool { return p.Diff(q) < 0 }

// MSN is a message sequence number: the number of completed requests modulo 2^24 (IBTA 9.7.7.1).
type MSN uint32

// Add returns m + n modulo 2^24.
func (m MSN) Add(n uint32) MSN { return MSN((uint32(m) + n) & mask24) }

// Diff returns the signed distance m - o, from -2^23 to 2^23 - 1.
func (m MSN) Diff(o MSN) int32 { return diff24(uint32(m), uint32(o)) }

func diff24(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
