package multipath

import (
	"bytes"
	"testing"
	"time"
)

// TestFailover: of two targets, one is killed and restarted, then the other. TestPartition fails over with NUMA, the
// default, TestSilentLoss with RoundRobin.
func TestFailover(t *testing.T) {
	for policy := range Latency + 1 {
		t.Run(policy.String(), func(t *testing.T) {
			if policy < QueueDepth && !*long {
				t.Skip("other tests have it: -long")
			}
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 2)
				cfg := l.config()
				cfg.Policy = policy
				s := l.connect(cfg)
				load := startLoad(t, l.namespace(s))
				load.progress()
				for i, p := range s.Paths() {
					l.sides[i].kill()
					l.await(p, StateLost)
					time.Sleep(15 * time.Second)
					load.progress()
					l.sides[i].revive()
					l.await(p, StateLive)
					load.progress()
					if st := p.Status(); st.Reconnects != 1 || st.Errors == 0 && policy != NUMA {
						t.Errorf("status %+v", st)
					}
				}
				load.stop()
			})
		})
	}
}

// TestKillAndReturn: the only target is killed and restarted.
func TestKillAndReturn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		load := startLoad(t, l.namespace(s))
		for range 3 {
			load.progress()
			l.sides[0].kill()
			time.Sleep(7 * time.Second)
			l.sides[0].revive()
			l.await(s.Paths()[0], StateLive)
		}
		load.progress()
		load.stop()
	})
}

// TestNamespaceComesLater: a restarted target gets its namespace only after a while.
func TestNamespaceComesLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		l.sides[0].kill()
		l.sides[0].empty = true
		l.await(s.Paths()[0], StateLost)
		l.sides[0].revive()
		l.await(s.Paths()[0], StateLive)
		if err := s.Paths()[0].Status().Namespaces[1]; err == nil {
			t.Error("the path seems to have the namespace")
		}
		time.AfterFunc(20*time.Second, l.sides[0].export)
		d, err := took(n.Flush)
		if err != nil {
			t.Error(err)
		}
		wantBetween(t, "the flush", d, 20*time.Second, 21*time.Second)
	})
}

// TestPartition: all packets are lost for half a minute.
func TestPartition(t *testing.T) {
	t.Parallel()
	for paths := 1; paths <= 2; paths++ {
		if paths == 1 && !*long {
			continue // which two that are cut at a time are, too
		}
		inBubble(t, func(t *testing.T) {
			l := newLab(t, paths)
			s := l.connect(l.config())
			load := startLoad(t, l.namespace(s))
			for _, side := range l.sides {
				load.progress()
				l.sever(side, true)
				time.Sleep(30 * time.Second)
				l.sever(side, false)
				for _, p := range s.Paths() {
					l.await(p, StateLive)
				}
			}
			load.progress()
			for _, side := range l.sides {
				l.sever(side, true)
			}
			time.Sleep(30 * time.Second)
			for _, side := range l.sides {
				l.sever(side, false)
			}
			load.progress()
			load.stop()
		})
	}
}

// TestBuffersFailOver: buffers are registered with the new controller too.
func TestBuffersFailOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		s := l.connect(l.config())
		n := l.namespace(s)
		b, err := s.NewBuffers(8192)
		if err != nil {
			t.Fatal(err)
		}
		out, in := b.Bytes()[:4096], b.Bytes()[4096:]
		round := func(k byte) {
			t.Helper()
			fill(out, int64(k), 1)
			if _, err := n.WriteAt(out, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := n.ReadAt(in, 0); err != nil || !bytes.Equal(in, out) {
				t.Fatalf("data differ, or %v", err)
			}
		}
		round(1)
		l.sides[0].kill()
		round(2)
		l.sides[0].revive()
		l.await(s.Paths()[0], StateLive)
		l.sides[1].kill()
		round(3)
		l.must(b.Close())
		rest, err := s.NewBuffers(4096) // left for Subsystem.Close
		if err != nil || len(rest.Bytes()) != 4096 {
			t.Fatal(err)
		}
	})
}
