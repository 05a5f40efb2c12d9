package multipath

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestMeasures: requests count once each, with the time that they waited for a path. Counters of closed queues and
// namespaces are kept, as are those of losses of controllers.
func TestMeasures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		q, err := n.OpenQueue(4, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 2048)
		l.sides[0].kill()
		time.AfterFunc(5*time.Second, l.sides[0].revive)
		q.Submit([]backend.Request{
			{Tag: 0, Op: backend.OpWrite, Length: 1024, Buf: b[:1024]}, {Tag: 1, Op: backend.OpRead, Offset: testSize, Length: 512, Buf: b[1024:1536]},
		})
		if m := s.Measure(); m.Namespaces[0].InFlight != 2 {
			t.Errorf("%d in flight", m.Namespaces[0].InFlight)
		}
		for left := 2; left > 0; time.Sleep(10 * time.Millisecond) {
			var rs [2]backend.Result
			left -= q.Poll(rs[:])
		}
		l.must(q.Close())
		if _, err := n.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		l.must(n.Flush())
		check := func(when string, size int64) {
			t.Helper()
			m := s.Measure()
			if m.NQN != testNQN || len(m.Namespaces) != 1 || len(m.Paths) != 1 {
				t.Fatalf("%s: %+v", when, m)
			}
			d := &m.Namespaces[0]
			got := map[string]uint64{}
			for op, h := range d.Kinds() {
				if got[op] = h.Count(); op == "write" && h.Sum() < 4*time.Second {
					t.Errorf("%s: the write took %v", when, h.Sum())
				}
			}
			if want := map[string]uint64{"write": 1, "read": 2, "flush": 1}; !maps.Equal(got, want) {
				t.Errorf("%s: requests %v, want %v", when, got, want)
			}
			if d.Size != size || d.InFlight != 0 || d.Read != 2048 || d.Written != 1024 {
				t.Errorf("%s: %d bytes, %d in flight, %d read, %d written", when, d.Size, d.InFlight, d.Read, d.Written)
			}
			if f := maps.Collect(d.Failures()); !maps.Equal(f, map[Failure]uint64{{Reason: "invalid"}: 1}) {
				t.Errorf("%s: failures %v", when, f)
			}
			p := &m.Paths[0]
			if p.State != StateLive || p.Addr != l.sides[0].addr || p.KeepAlive == 0 || p.Refused || p.Reconnects != 1 || p.Losses["keepalive"]+p.Losses["unreachable"]+p.Losses["timeout"] != 1 {
				t.Errorf("%s: path %+v", when, p)
			}
		}
		check("open", testSize)
		l.must(n.Close())
		check("closed", 0)
		l.must(n.Close()) // is not counted twice
		l.namespace(s)
		check("open again", testSize)
	})
}

// TestClosedInFlight: a call does not stay in flight when its namespace is closed.
func TestClosedInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		l.must(n.Flush())
		l.sides[0].kill()
		ended := make(chan error)
		go func() { // ends with the namespace
			_, err := n.ReadAt(make([]byte, 512), 0)
			ended <- err
		}()
		time.Sleep(time.Minute) // the path is lost
		if m := s.Measure(); m.Namespaces[0].InFlight != 1 {
			t.Errorf("%d in flight", m.Namespaces[0].InFlight)
		}
		l.must(n.Close())
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if m := s.Measure(); m.Namespaces[0].InFlight != 0 {
			t.Errorf("%d in flight of a closed namespace", m.Namespaces[0].InFlight)
		}
	})
}

// TestFailures: each error has its reason, and a controller cannot use up memory with many statuses.
func TestFailures(t *testing.T) {
	status := &host.StatusError{Status: capsule.StatusWriteFault | capsule.StatusDNR}
	for want, err := range map[Failure]error{
		{"status", capsule.StatusWriteFault}: status,
		{Reason: "no_path"}:                  &NoPathError{Last: status},
		{Reason: "unknown"}:                  &UnknownError{Err: status},
		{Reason: "removed"}:                  host.ErrRemoved,
		{Reason: "closed"}:                   ErrClosed,
		{Reason: "canceled"}:                 context.Canceled,
		{Reason: "invalid"}:                  host.ErrUnaligned,
		{Reason: "other"}:                    errors.New("another"),
	} {
		if got := failureOf(fmt.Errorf("request: %w", err)); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
	var c tally
	for i := range 2 * maxFailures {
		c.ended(backend.OpRead, 512, 1, &host.StatusError{Status: capsule.Status(i)})
	}
	c.ended(99, 512, 1, nil)
	if len(c.failed) > maxFailures+1 {
		t.Errorf("%d failures", len(c.failed))
	}
}

// BenchmarkTally measures the cost of counting a request.
func BenchmarkTally(b *testing.B) {
	var c tally
	b.ReportAllocs()
	for i := range b.N {
		c.ended(backend.OpRead, 4096, int64(20000+i&0x3fff), nil)
	}
}

// TestUnmeasured: completed requests are not counted.
func TestUnmeasured(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		cfg := l.config()
		cfg.Unmeasured = true
		s := l.connect(cfg)
		n := l.namespace(s)
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			t.Fatal(err)
		}
		q, err := n.OpenQueue(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Submit([]backend.Request{{Op: backend.OpRead, Length: 512, Buf: make([]byte, 512)}})
		for rs := make([]backend.Result, 1); q.Poll(rs) == 0; time.Sleep(time.Millisecond) {
		}
		l.must(q.Close())
		m := s.Measure().Namespaces[0]
		for kind := range m.Kinds() {
			t.Errorf("a %s was counted", kind)
		}
		if m.Read != 0 || m.InFlight != 0 {
			t.Errorf("%+v", m)
		}
	})
}
