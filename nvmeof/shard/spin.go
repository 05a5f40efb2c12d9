package shard

// maxSpinFactor is how many times Config.Spin a loop may poll at most.
const maxSpinFactor = 8

// spinner decides how long a loop without work polls before it sleeps. Waking
// costs tens of microseconds, about what a fast disk takes: a loop that has
// learnt that work comes at intervals which it could just as well poll through
// does so, up to maxSpinFactor times as long as it would otherwise, and forgets
// when work comes faster or much slower.
type spinner struct {
	least  int64 // nanoseconds
	length int64 // now
	useful int64 // time of the last useful turn
}

func (p *spinner) init(least int64) { p.least, p.length = least, least }

// worked takes the time of a turn that found something to do.
func (p *spinner) worked(now int64) {
	gap := now - p.useful
	p.useful = now
	if gap >= p.length/2 && gap <= p.least*maxSpinFactor {
		p.length = min(2*gap, p.least*maxSpinFactor)
	} else {
		p.length = max(p.least, p.length-p.length/64)
	}
}

// over reports whether a loop without work has polled long enough.
func (p *spinner) over(now int64) bool { return now-p.useful >= p.length }
