package rc

import (
	"testing"
	"time"
)

// TestStandingQueue: a deep queue that neither marks nor drops is not filled up to the windows' limits, and shrinks
// again when more senders have joined after the windows had grown.
func TestStandingQueue(t *testing.T) {
	const flows = 8
	s := newIncast(t, incastConfig{flows: flows, mtu: 4096, link: link{rate: gigabit}, delay: 20 * time.Microsecond, seed: 1})
	all := s.flows
	s.flows = all[:flows/2]
	s.run(20 * time.Millisecond)
	for _, f := range s.flows {
		f.a.rtt.sends.window = f.a.rtt.sends.limit
	}
	s.flows = all
	s.run(200 * time.Millisecond)
	queue := s.link.free - s.now
	carried := s.link.carried
	s.run(400 * time.Millisecond)
	utilisation := float64(s.link.carried-carried) / (s.link.rate * 0.2)
	// The minimum is 64 KiB per sender, 4 ms; the limits allow 33 ms.
	t.Logf("utilisation %.3f; queue of %v after 0.2 s, %v after 0.4 s", utilisation, queue, s.link.free-s.now)
	if utilisation < 0.95 || s.link.free-s.now > 16*time.Millisecond {
		t.Fail()
	}
}

func TestStandingSamples(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		trips []time.Duration // one each millisecond
		want  bool
	}{
		{"all long", []time.Duration{3 * ms, 4 * ms, 3 * ms, 5 * ms, 3 * ms, 3 * ms, 3 * ms, 3 * ms}, true},
		{"one short", []time.Duration{3 * ms, 4 * ms, 3 * ms, 5 * ms, ms / 10, 3 * ms, 3 * ms, 3 * ms}, false},
		{"few", []time.Duration{9 * ms, 9 * ms}, false},
	} {
		var s standing
		got := false
		for i, d := range c.trips {
			got = s.sample(time.Duration(i)*ms, d, ms) || got
		}
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
