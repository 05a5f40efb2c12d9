package rc

const (
	// lossTolerance is the share of packets lost that is not taken for congestion:
	// some paths lose 5 % whatever goes over them, and to leave them idle helps nobody.
	// The rest is for chance. Many small reductions in a row would take a rate to
	// nothing, since each ends a recovery.
	lossTolerance = 0.07
	meterSpan     = 1024 // packets, after which what was counted weighs half
	meterLeast    = 64   // packets; the share of fewer says nothing
)

// lossMeter measures which share of the packets of one kind is lost, towards our
// own kind, where losses are reported exactly.
type lossMeter struct {
	sent, lost int // of late
}

func (m *lossMeter) count(sent, lost int) {
	m.sent += sent
	m.lost += lost
	if m.sent >= meterSpan {
		m.sent /= 2
		m.lost /= 2
	}
}

// excess is the share lost beyond what is borne.
func (m *lossMeter) excess() float64 {
	return min(1, max(0, float64(m.lost)/float64(max(m.sent, meterLeast))-lossTolerance))
}
