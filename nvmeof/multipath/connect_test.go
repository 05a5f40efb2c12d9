package multipath

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

func TestConfig(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		tests := []struct {
			change func(*Config)
			want   string
		}{
			{func(c *Config) { c.NQN = "" }, "NQN is missing"},
			{func(c *Config) { c.Paths = nil }, "Paths is empty"},
			{func(c *Config) { c.Policy = 7 }, "policy 7"},
			{func(c *Config) { c.Paths[0].Host = nil }, "Host is missing"},
			{func(c *Config) { c.Paths[0].Options.NQN = "nqn.2014-08.org.example:other" }, "cannot belong to"},
			{func(c *Config) { c.Paths[0].Options.KeepAliveTmo = -1 }, "ReplayDelay"},
			{func(c *Config) { c.Paths[0].Options.Traddr = netip.Addr{} }, "Traddr is missing"},
			{func(c *Config) { c.NQN = "nqn.2014-08.org.example:other" }, "no such subsystem"},
			{func(c *Config) {
				c.Paths = append(c.Paths, c.Paths[0])
				c.Paths[1].Options.HostNQN = "nqn.2014-08.org.example:host"
			}, "need the same HostNQN"},
			{func(c *Config) {
				for range MaxPaths {
					c.Paths = append(c.Paths, c.Paths[0])
				}
			}, "want at most 32"},
			{func(c *Config) { c.Paths[0].Options.Traddr = netip.MustParseAddr("192.0.2.99") }, "no answer"},
		}
		for _, tt := range tests {
			c := l.config()
			tt.change(&c)
			s, err := Connect(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if s != nil {
				t.Error("a subsystem beside an error")
			}
		}
	})
}

// TestOneOfTwo: a target that is not running yet does not prevent Connect, and is used when it starts.
func TestOneOfTwo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.sides[0].kill()
		events := map[State]int{}
		cfg := l.config()
		cfg.Event = func(e Event) {
			if e.Path.Addr() == l.sides[0].addr {
				events[e.State]++
			}
		}
		var s *Subsystem
		d, _ := took(func() error { s = l.connect(cfg); return nil })
		wantBetween(t, "connecting by the path that is there", d, 0, 1100*time.Millisecond)
		n := l.namespace(s)
		l.must(n.Flush())
		time.Sleep(time.Minute)
		if st := s.Paths()[0].Status(); st.State != StateConnecting || st.Err == nil || st.Attempts == 0 {
			t.Errorf("status %+v", st)
		}
		l.sides[0].revive()
		l.await(s.Paths()[0], StateLive)
		l.sides[1].kill()
		l.must(n.Flush())
		if events[StateConnecting] == 0 || events[StateLive] == 0 {
			t.Errorf("events %v", events)
		}
		ids, err := s.Namespaces(context.Background())
		if err != nil || len(ids) != 1 || ids[0] != 1 {
			t.Errorf("namespaces %v, %v", ids, err)
		}
	})
}

// TestNobodyAnswers: when the caller gives up, the error lists the targets that did not answer.
func TestNobodyAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		for _, side := range l.sides {
			side.kill()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Connect(ctx, l.config())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer from 192.0.2.2:4420, 192.0.2.3:4420") {
			t.Errorf("%v", err)
		}
	})
}

// TestMismatch: a path to another namespace is refused at first, and not used if it appears later.
func TestMismatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		small, err := memory.New(memory.Config{Size: testSize / 2, BlockSize: 512})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { small.Close() })
		other := uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b99")
		for _, tt := range []struct {
			want   string
			change func(*side)
		}{
			{"namespace 1 is a different one: its identifier is UUID " + other.String(), func(s *side) { s.uuid = other }},
			{"has 524288 bytes in blocks of 512, but on the other paths 1048576", func(s *side) { s.store = small }},
		} {
			b := l.sides[1]
			was := *b
			b.stop()
			tt.change(b)
			b.start()
			s := l.connect(l.config())
			var mismatch *MismatchError
			if _, err := s.Namespace(t.Context(), 1); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			b.kill()
			b.uuid, b.store = was.uuid, was.store
			b.revive()
			l.await(s.Paths()[1], StateLost)
			l.await(s.Paths()[1], StateLive)
			n := l.namespace(s)
			b.kill()
			tt.change(b)
			l.await(s.Paths()[1], StateLost)
			b.revive()
			l.await(s.Paths()[1], StateLive)
			if st := s.Paths()[1].Status(); !errors.As(st.Namespaces[1], &mismatch) {
				t.Errorf("status %+v", st)
			}
			l.sides[0].set(2)
			time.Sleep(time.Second)
			if got := used(t, n); got != 0 {
				t.Error("the other namespace was written")
			}
			l.sides[0].set(1)
			l.must(s.Close())
			b.kill()
			b.uuid, b.store = was.uuid, was.store
			b.revive()
		}
	})
}

// TestDelete: deleting a path causes no error, and an added path is used.
func TestDelete(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		cfg := l.config()
		second := cfg.Paths[1]
		cfg.Paths, cfg.Policy = cfg.Paths[:1], RoundRobin
		s := l.connect(cfg)
		load := startLoad(t, l.namespace(s))
		load.progress()
		p, err := s.Add(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		load.progress()
		first := s.Paths()[0]
		if first.Status().Completed == 0 || p.Status().Completed == 0 {
			t.Error("a path is not used")
		}
		first.Delete()
		if st := first.Status(); st.State != StateDeleting || st.InFlight != 0 {
			t.Errorf("status %+v", st)
		}
		load.progress()
		load.stop()
		if slow := time.Duration(load.slow.Load()); slow > 3*time.Second {
			t.Errorf("a request took %v", slow)
		}
		if got := len(l.sides[0].target.Controllers()); got != 0 {
			t.Errorf("%d controllers are left", got)
		}
		bad := second
		bad.Options.HostID[0] ^= 1
		bad.Options.NQN = testNQN
		if _, err := s.Add(t.Context(), bad); err == nil {
			t.Error("a path of another host is added")
		}
		var connect *host.ConnectError
		gone := second
		gone.Options.Traddr = netip.MustParseAddr("192.0.2.99")
		if _, err := s.Add(t.Context(), gone); !errors.As(err, &connect) || len(s.Paths()) != 2 {
			t.Errorf("a path to nowhere: %v", err)
		}
	})
}

// TestRefusedPath: a path that its target refuses for a while is tried again until it is accepted, while the others are
// used.
func TestRefusedPath(t *testing.T) {
	longer := 10 * time.Minute
	if *long {
		longer = time.Hour
	}
	for _, after := range []time.Duration{4 * time.Second, longer} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, 2)
			l.sides[1].sub.AllowAnyHost(false)
			var s *Subsystem
			d, _ := took(func() error { s = l.connect(l.config()); return nil })
			wantBetween(t, "connecting by the path that is allowed", d, 0, 1100*time.Millisecond)
			n := l.namespace(s)
			l.must(n.Flush())
			p := s.Paths()[1]
			time.Sleep(after)
			var status *host.StatusError
			if st := p.Status(); st.State != StateConnecting || !errors.As(st.Err, &status) || st.Attempts == 0 || st.Attempts > 3+int(after/time.Minute) {
				t.Errorf("after %v: status %+v", after, st)
			}
			l.sides[1].sub.AllowAnyHost(true)
			d, _ = took(func() error { l.await(p, StateLive); return nil })
			wantBetween(t, "the next attempt", d, 0, 81*time.Second)
			l.sides[0].kill()
			l.must(n.Flush())
		})
	}
}

// TestKeptPath: while another path is live, a path that has never been live is not given up, however long an attempt
// takes, nor, with KeepLost, one that has been live. Once all are lost, they are given up.
func TestKeptPath(t *testing.T) {
	for _, keep := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, 3)
			l.sever(l.sides[2], true) // which takes longer to find out
			cfg := l.config()
			cfg.KeepLost = keep
			for i := range cfg.Paths {
				cfg.Paths[i].CtrlLossTmo = time.Second
			}
			s := l.connect(cfg)
			n := l.namespace(s)
			l.sides[1].kill()
			time.Sleep(time.Minute)
			if got := s.Paths()[1].Status().State; (got == StateLost) != keep || got == StateLive {
				t.Errorf("kept: %v; the path that was lost is %v", keep, got)
			}
			if got := s.Paths()[2].Status(); got.State != StateConnecting || got.Attempts == 0 {
				t.Errorf("the path that never was live is %v after %d attempts", got.State, got.Attempts)
			}
			if keep {
				l.sides[1].revive()
				l.await(s.Paths()[1], StateLive)
			}
			l.sides[0].kill()
			if err := n.Flush(); (err == nil) != keep {
				t.Errorf("kept: %v; by the path that is back: %v", keep, err)
			}
			if keep {
				l.sides[1].kill()
			}
			d, _ := took(func() error {
				for _, p := range s.Paths() {
					l.await(p, StateDead)
				}
				return nil
			})
			wantBetween(t, "giving up", d, 0, 30*time.Second)
		})
	}
}

// TestRefusedAlone: Connect does not wait for a path that is refused, and the path is not kept for ever once it is the
// only one.
func TestRefusedAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.sides[1].sub.AllowAnyHost(false)
		cfg := l.config()
		s := l.connect(cfg)
		l.sides[0].kill()
		l.await(s.Paths()[0], StateDead)
		l.await(s.Paths()[1], StateDead)
		l.sides[1].sub.AllowAnyHost(false)
		cfg.Paths, cfg.Wait = cfg.Paths[1:], true
		d, err := took(func() error {
			_, err := Connect(t.Context(), cfg)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "does not allow this host") {
			t.Errorf("%v", err)
		}
		wantBetween(t, "being refused", d, 0, time.Second)
	})
}

// TestOnlyTargetStarts: a host that starts before its only target waits for it, but no longer than for a lost target.
func TestOnlyTargetStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.sides[0].kill()
		l.sides[1].sub.AllowAnyHost(false) // and the other one refuses
		cfg := l.config()
		cfg.Wait = true
		time.AfterFunc(5*time.Minute, l.sides[0].revive)
		var s *Subsystem
		d, err := took(func() (err error) {
			s, err = Connect(t.Context(), cfg)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.must(s.Close()) })
		wantBetween(t, "connecting", d, 5*time.Minute, 6*time.Minute)
		l.must(l.namespace(s).Flush())
		l.must(s.Close())
		l.sides[0].kill()
		cfg.Paths = cfg.Paths[:1]
		cfg.Paths[0].CtrlLossTmo = 2 * time.Minute
		d, err = took(func() error {
			_, err := Connect(t.Context(), cfg)
			return err
		})
		var connect *host.ConnectError
		if !errors.As(err, &connect) {
			t.Errorf("%v", err)
		}
		wantBetween(t, "giving up", d, 2*time.Minute, 3*time.Minute)
	})
}
