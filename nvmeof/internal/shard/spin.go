package shard

import "sync/atomic"

// maxSpinFactor is how many times Config.Spin a loop may poll at most.
const maxSpinFactor = 8

// firstSpinFactor is the same for the first operation after a pause.
const firstSpinFactor = 6

// expectFactor is the same while the end of an operation is waited for: a disk
// answers requests in clumps, with pauses about as long as waking takes, and a peer
// with such a disk does, too.
const expectFactor = 16

// lonelyShare is what is left of the least after a pause much longer than it: who
// comes so rarely pays for waking the loop anyway.
const lonelyShare = 4

// learnAfter is how many intervals in a row a loop learns from.
const learnAfter = 8

// spinner decides how long a loop without work polls before it sleeps. Waking
// costs tens of microseconds, about what a fast disk takes: a loop that has
// learnt that work comes at intervals which it could just as well poll through
// does so, up to maxSpinFactor times as long as it would otherwise, and forgets
// when work comes faster or much slower.
type spinner struct {
	least  int64 // nanoseconds
	length int64 // now
	useful int64 // time of the last useful turn
	seen   int   // such intervals since the last that was much longer

	expected atomic.Int64 // operations whose end the loop will hear of; written by whoever begins them
}

func (p *spinner) init(least int64) { p.least, p.length = least, least }

// began takes the time at which a holder of the loop has begun an operation. The
// first after a long pause has to wake the peer as well, which it waits for in one
// piece.
func (p *spinner) began(now int64) {
	if now-p.useful > p.least*maxSpinFactor {
		p.length = p.least * firstSpinFactor
	}
	p.useful = now
}

// worked takes the time of a turn that found something to do.
func (p *spinner) worked(now int64) {
	gap := now - p.useful
	p.useful = now
	switch {
	case gap > p.least*maxSpinFactor:
		p.seen, p.length = 0, p.least/lonelyShare
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

// over reports whether a loop without work has polled long enough. On a processor that others want, too,
// it does not poll for longer than the least: 4 KiB reads of an image of Ceph, whose OSD has the same
// processors, take 85 to 122 us of them each at both ends, and took 190 before Crowded knew of turns that
// others held up (go run -tags rbd ./test/bench -only rbd).
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
