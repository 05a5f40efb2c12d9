package shard

import "sync/atomic"

// maxSpinFactor times Config.Spin is how long a loop polls at most.
const maxSpinFactor = 8

// firstSpinFactor is the factor for the first operation after a pause.
const firstSpinFactor = 6

// expectFactor is the factor while an operation is outstanding. A disk answers requests in bursts, with pauses about as
// long as waking takes, and so does a peer with such a disk.
const expectFactor = 16

// pauseDivisor divides Config.Spin after a pause much longer than it: for work that rare, the cost of waking the loop
// does not matter.
const pauseDivisor = 4

// learnAfter is how many such intervals in a row a loop must see before it adapts.
const learnAfter = 8

// spinner decides how long a loop without work polls before it sleeps. Waking costs tens of microseconds, about as long
// as a fast disk takes. If work arrives at intervals short enough to poll through, the loop learns to do so, for up to
// maxSpinFactor times Config.Spin. It forgets that when work arrives faster or much slower.
type spinner struct {
	least  int64 // nanoseconds
	length int64 // now
	useful int64 // time of the last turn that found work
	seen   int   // such intervals since the last much longer one

	expected atomic.Int64 // outstanding operations; written by the goroutines that begin them
}

func (p *spinner) init(least int64) { p.least, p.length = least, least }

// began notes the time at which a holder of the loop began an operation. The first one after a long pause has to wake
// the peer as well, so the loop polls for longer.
func (p *spinner) began(now int64) {
	if now-p.useful > p.least*maxSpinFactor {
		p.length = p.least * firstSpinFactor
	}
	p.useful = now
}

// worked notes the time of a turn that found work.
func (p *spinner) worked(now int64) {
	gap := now - p.useful
	p.useful = now
	switch {
	case gap > p.least*maxSpinFactor:
		p.seen, p.length = 0, p.least/pauseDivisor
	case gap < p.length/2:
		p.length = max(p.least, p.length-p.length/64)
	case p.seen < learnAfter:
		p.seen++
	default:
		p.length = min(2*gap, p.least*maxSpinFactor)
	}
	if gap <= p.least {
		p.length = max(p.length, p.least)
	}
}

// over reports whether a loop without work has polled long enough. On a processor that other threads want, it does not
// poll for longer than Config.Spin. 4 KiB reads of a Ceph image, whose OSD shares the processors, take 85 to 122 us of
// processor time each at both ends. They took 190 us before Crowded counted turns that other threads held up (go run
// -tags rbd ./test/bench -only rbd).
func (p *spinner) over(now int64, crowded bool) bool {
	length := p.length
	switch {
	case crowded:
		length = min(length, p.least)
	case p.expected.Load() > 0:
		length = max(length, p.least*expectFactor)
	}
	return now-p.useful >= length
}
