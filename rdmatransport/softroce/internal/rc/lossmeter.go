package rc

const (
	// lossTolerance is the loss rate that is not taken for congestion: some paths lose 5 % whatever the load, and
	// sending less would not help. The margin is for chance. Many small reductions in a row would bring a rate to
	// zero, since each ends a recovery.
	lossTolerance = 0.07
	meterSpan     = 1024 // packets after which the counts are halved
	meterLeast    = 64   // packets; fewer are too few for a rate
)

// lossMeter measures the loss rate of one kind of packets towards a softroce peer, which reports losses exactly.
type lossMeter struct {
	sent, lost int // recent packets
}

func (m *lossMeter) count(sent, lost int) {
	m.sent += sent
	m.lost += lost
	if m.sent >= meterSpan {
		m.sent /= 2
		m.lost /= 2
	}
}

// excess returns the loss rate beyond the tolerance.
func (m *lossMeter) excess() float64 {
	return min(1, max(0, float64(m.lost)/float64(max(m.sent, meterLeast))-lossTolerance))
}
