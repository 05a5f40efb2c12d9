package decide

import (
	"errors"
	"testing"
	"time"
)

var (
	start  = time.Unix(1000, 0)
	errAny = errors.New("any reason")
	linux  = Timers{10 * time.Second, 600 * time.Second, -1}
)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// TestLife steps a path through its states, and checks what follows.
func TestLife(t *testing.T) {
	type step struct {
		at    float64 // seconds
		do    string  // "", connected, failed, refused, spare, keep, lost, delete
		state State
		due   Action
		wake  float64 // 0: none
	}
	tests := []struct {
		name   string
		timers Timers
		steps  []step
	}{
		{"first attempt", linux, []step{{0, "", Connecting, Connect, 0.001}, {1, "connected", Live, Wait, 0}}},
		{"attempts double up to the delay", linux, []step{
			{0, "failed", Connecting, Wait, 2}, {2, "", Connecting, Connect, 2}, {2, "failed", Connecting, Wait, 6},
			{6, "failed", Connecting, Wait, 14}, {14, "failed", Connecting, Wait, 24}, {24, "failed", Connecting, Wait, 34},
		}},
		{"comes back", linux, []step{
			{0, "connected", Live, Wait, 0}, {5, "lost", Lost, Wait, 6}, {6, "", Lost, Connect, 6}, {6, "failed", Lost, Wait, 8},
			{8, "connected", Live, Wait, 0}, {100, "lost", Lost, Wait, 101},
		}},
		{"refused at first", linux, []step{
			{0, "refused", Connecting, Wait, 10}, {10, "", Connecting, Connect, 10}, {10, "refused", Connecting, Wait, 30},
			{30, "refused", Connecting, Wait, 70}, {70, "refused", Connecting, Wait, 150}, {150, "refused", Connecting, Wait, 230},
			{230, "failed", Connecting, Wait, 240}, {240, "connected", Live, Wait, 0},
		}},
		{"refused for too long", Timers{10 * time.Second, 60 * time.Second, -1}, []step{
			{0, "refused", Connecting, Wait, 10}, {10, "refused", Connecting, Wait, 30}, {30, "refused", Connecting, Wait, 60},
			{60, "", Dead, End, 0}, {61, "connected", Dead, End, 0},
		}},
		{"refused while others are live", Timers{10 * time.Second, 60 * time.Second, -1}, []step{
			{0, "refused", Connecting, Wait, 10}, {59, "spare", Connecting, Connect, 10}, {118, "spare", Connecting, Connect, 10},
			{178, "", Dead, End, 0},
		}},
		{"lost while others are live", Timers{10 * time.Second, 60 * time.Second, -1}, []step{
			{0, "connected", Live, Wait, 0}, {1, "lost", Lost, Wait, 2}, {60, "spare", Lost, Connect, 2}, {61, "", Dead, End, 0},
		}},
		{"lost and kept while others are live", Timers{10 * time.Second, 60 * time.Second, -1}, []step{
			{0, "connected", Live, Wait, 0}, {1, "lost", Lost, Wait, 2}, {60, "keep", Lost, Connect, 2}, {119, "failed", Lost, Wait, 120},
			{120, "", Dead, End, 0},
		}},
		{"refused later", linux, []step{{0, "connected", Live, Wait, 0}, {5, "lost", Lost, Wait, 6}, {6, "refused", Lost, Wait, 8}}},
		{"given up between attempts", Timers{10 * time.Second, 5 * time.Second, -1}, []step{
			{0, "connected", Live, Wait, 0}, {5, "lost", Lost, Wait, 6}, {6, "failed", Lost, Wait, 8}, {8, "failed", Lost, Wait, 10},
			{9.9, "", Lost, Wait, 10}, {10, "", Dead, End, 0},
		}},
		{"given up by an attempt that took long", Timers{time.Second, 5 * time.Second, -1}, []step{
			{0, "connected", Live, Wait, 0}, {5, "lost", Lost, Wait, 5.1}, {11, "failed", Dead, End, 0},
		}},
		{"tried once", Timers{10 * time.Second, 1, -1}, []step{{1, "", Connecting, Connect, 0.001}, {2, "failed", Dead, End, 0}}},
		{"not even tried", Timers{time.Second, 0, -1}, []step{{0, "connected", Live, Wait, 0}, {5, "lost", Dead, End, 0}}},
		{"for ever", Timers{time.Second, -1, -1}, []step{{0, "connected", Live, Wait, 0}, {1e6, "lost", Lost, Wait, 1e6 + 0.1}, {3e6, "", Lost, Connect, 1e6 + 0.1}}},
		{"deleted", linux, []step{{0, "connected", Live, Wait, 0}, {1, "delete", Deleting, End, 0}, {2, "lost", Deleting, End, 0}, {3, "failed", Deleting, End, 0}}},
	}
	for _, tt := range tests {
		l := NewLife(tt.timers, start)
		for _, s := range tt.steps {
			now := at(s.at)
			switch s.do {
			case "connected":
				l.Connected(now)
			case "failed":
				l.Failed(now, errAny, false, 0)
			case "refused":
				l.Failed(now, errAny, true, 0)
			case "spare":
				l.Spare(now, false)
			case "keep":
				l.Spare(now, true)
			case "lost":
				l.LostController(now, errAny, 0)
			case "delete":
				l.Delete(now)
			}
			due := l.Due(now)
			state, _, _ := l.State()
			wake, ok := l.Wake()
			if state != s.state || due != s.due || ok != (s.wake != 0) || ok && s.wake != 0.001 && !wake.Equal(at(s.wake)) {
				t.Errorf("%s: at %v, after %q: %v, action %d, wake at %v (%v)", tt.name, s.at, s.do, state, due, wake.Sub(start), ok)
			}
		}
	}
}

// TestDelays: the pause is shortened at random by up to a quarter.
func TestDelays(t *testing.T) {
	l := NewLife(linux, start)
	l.attempts = 9
	for random, want := range map[float64]time.Duration{0: 10 * time.Second, 0.5: 8750 * time.Millisecond, 1: 7500 * time.Millisecond} {
		if got := l.delay(random); got != want {
			t.Errorf("random %v: %v, want %v", random, got, want)
		}
	}
}

func TestHope(t *testing.T) {
	fast := Timers{10 * time.Second, 600 * time.Second, 15 * time.Second}
	tests := []struct {
		timers Timers
		life   func(*Life)
		until  float64 // 0: for ever
		ok     bool
	}{
		{linux, func(*Life) {}, 0, true},
		{fast, func(*Life) {}, 15, true},
		{fast, func(l *Life) { l.Connected(at(1)) }, 0, true},
		{fast, func(l *Life) { l.Connected(at(1)); l.LostController(at(3), errAny, 0) }, 18, true},
		{linux, func(l *Life) { l.Connected(at(1)); l.LostController(at(3), errAny, 0) }, 0, true},
		{linux, func(l *Life) { l.Delete(at(1)) }, 0, false},
		{linux, func(l *Life) { l.Failed(at(1), errAny, true, 0) }, 0, true},
		{fast, func(l *Life) { l.Failed(at(1), errAny, true, 0); l.Spare(at(9), false) }, 24, true},
	}
	for i, tt := range tests {
		l := NewLife(tt.timers, start)
		tt.life(&l)
		until, ok := l.Hope()
		if ok != tt.ok || ok && until.IsZero() != (tt.until == 0) || tt.until != 0 && !until.Equal(at(tt.until)) {
			t.Errorf("row %d: hope until %v, %v", i, until, ok)
		}
	}
}

func TestCounts(t *testing.T) {
	l := NewLife(linux, start)
	l.Failed(at(0), errAny, false, 0)
	l.Failed(at(2), errAny, false, 0)
	if l.Attempts() != 2 || l.Reconnects() != 0 {
		t.Errorf("%d attempts, %d reconnects", l.Attempts(), l.Reconnects())
	}
	for i := range 3 {
		l.Connected(at(float64(10 + 10*i)))
		l.LostController(at(float64(15+10*i)), errAny, 0)
	}
	if _, since, err := l.State(); l.Attempts() != 0 || l.Reconnects() != 2 || err != errAny || !since.Equal(at(35)) {
		t.Errorf("%d attempts, %d reconnects, %v since %v", l.Attempts(), l.Reconnects(), err, since)
	}
	for s, want := range map[State]string{Connecting: "connecting", Dead: "dead", 9: "state 9"} {
		if s.String() != want {
			t.Errorf("%v, want %s", s, want)
		}
	}
}

// TestLimit: an attempt to reconnect ends when the path is given up.
func TestLimit(t *testing.T) {
	start := time.Unix(1000, 0)
	l := NewLife(Timers{ReconnectDelay: time.Second, CtrlLoss: 5 * time.Second}, start)
	if at, ok := l.Limit(); ok {
		t.Errorf("the first attempt ends at %v", at)
	}
	l.Connected(start)
	lost := start.Add(time.Minute)
	l.LostController(lost, errors.New("lost"), 0)
	if at, ok := l.Limit(); !ok || !at.Equal(lost.Add(5*time.Second)) {
		t.Errorf("an attempt ends at %v, %v", at, ok)
	}
	l = NewLife(Timers{ReconnectDelay: time.Second, CtrlLoss: -1}, start)
	l.Connected(start)
	l.LostController(lost, errors.New("lost"), 0)
	if at, ok := l.Limit(); ok {
		t.Errorf("an attempt of a path that is never given up ends at %v", at)
	}
}
