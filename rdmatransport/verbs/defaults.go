//go:build verbs && cgo && linux

package verbs

import "time"

const (
	defaultResolveTimeout = 2 * time.Second
	mostAckTimeout        = 500 * time.Millisecond // unless Config.AckTimeout is set
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

// ackTimeout returns the ACK timeout in the form used by queue pairs. bound reports whether it is only an upper bound
// of the RDMA CM's value.
func (c *Config) ackTimeout() (exponent uint8, bound bool) {
	if c.AckTimeout <= 0 {
		return ackExponent(mostAckTimeout), true
	}
	return ackExponent(c.AckTimeout), false
}

// ackExponent returns the exponent, 5 bits, of the smallest power of two times 4.096 µs that is at least d (IBTA
// volume 1, 11.2.5.2). It is at least 1, since 0 means no timeout.
func ackExponent(d time.Duration) uint8 {
	e := uint8(1)
	for e < 31 && time.Duration(4096)<<e < d {
		e++
	}
	return e
}
