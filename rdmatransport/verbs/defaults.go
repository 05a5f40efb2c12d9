//go:build verbs && cgo && linux

package verbs

import "time"

const (
	defaultResolveTimeout = 2 * time.Second
	mostAckTimeout        = 500 * time.Millisecond // unless Config.AckTimeout says otherwise
)

func (c *Config) resolveTimeout() time.Duration {
	if c.ResolveTimeout > 0 {
		return c.ResolveTimeout
	}
	return defaultResolveTimeout
}

func (c *Config) shards() int {
	if c.Shards == 0 {
		return 1
	}
	return c.Shards
}

// ackTimeout is AckTimeout as queue pairs have it, and whether that is but a bound on what
// the RDMA CM says.
func (c *Config) ackTimeout() (exponent uint8, bound bool) {
	if c.AckTimeout <= 0 {
		return ackExponent(mostAckTimeout), true
	}
	return ackExponent(c.AckTimeout), false
}

// ackExponent rounds up to a power of two times 4.096 µs, and is the exponent, 5 bits
// (IBTA volume 1, 11.2.5.2). 0 would be without end.
func ackExponent(d time.Duration) uint8 {
	e := uint8(1)
	for e < 31 && time.Duration(4096)<<e < d {
		e++
	}
	return e
}
