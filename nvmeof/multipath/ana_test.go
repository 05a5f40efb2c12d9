package multipath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// set sets the ANA state of the namespace on a target.
func (s *side) set(state capsule.ANAState) {
	s.l.t.Helper()
	s.l.must(s.listener.SetANAState(1, state))
}

// used writes a block, and returns which path it was written on.
func used(t *testing.T, n *Namespace) int {
	t.Helper()
	paths := n.sub.Paths()
	var before []uint64
	for _, p := range paths {
		before = append(before, p.Status().Completed)
	}
	if _, err := n.WriteAt(make([]byte, 512), 0); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		if p.Status().Completed > before[i] {
			return i
		}
	}
	t.Fatal("no path was used")
	return -1
}

// TestANAStates: optimized paths are preferred, others are used or not according to their state, and the host follows
// changes within moments.
func TestANAStates(t *testing.T) {
	const (
		opt, non, no = capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible
	)
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		n := l.namespace(l.connect(l.config()))
		for _, tt := range []struct {
			a, b capsule.ANAState
			want int
		}{
			{opt, opt, 0}, {non, opt, 1}, {non, non, 1}, {opt, non, 0}, {no, non, 1}, {capsule.ANAPersistentLoss, opt, 1},
			{opt, capsule.ANAChange, 0}, {opt, opt, 0},
		} {
			l.sides[0].set(tt.a)
			l.sides[1].set(tt.b)
			time.Sleep(200 * time.Millisecond)
			if got := used(t, n); got != tt.want {
				t.Errorf("%v and %v: path %d was used", tt.a, tt.b, got)
			}
			if got := n.sub.Paths()[0].Status().Groups[1]; got != tt.a {
				t.Errorf("the host thinks that the first path is %v, it is %v", got, tt.a)
			}
		}
	})
}

// TestANAGroupMoves: a namespace that moves to another ANA group has the states of that group, according to the log
// and, if the log does not list it, to its Identify data.
func TestANAGroupMoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.must(l.sides[0].listener.SetANAState(2, capsule.ANAInaccessible))
		l.must(l.sides[1].listener.SetANAState(2, capsule.ANANonOptimized))
		l.sides[1].set(capsule.ANANonOptimized)
		s := l.connect(l.config())
		n := l.namespace(s)
		for i, want := range []int{0, 1, 0, 1} {
			group := capsule.ANAGroup(1 + i%2)
			for _, side := range l.sides {
				l.must(side.sub.Namespaces()[0].SetGroup(group))
			}
			time.Sleep(200 * time.Millisecond)
			if got := used(t, n); got != want {
				t.Errorf("in group %d path %d was used", group, got)
			}
			for k, p := range s.Paths() {
				if got, want := p.Status().States[1], l.sides[k].listener.ANAState(group); got != want {
					t.Errorf("in group %d path %d is %v, want %v", group, k, got, want)
				}
				s.mu.Lock()
				a := p.session.spaces[n]
				log := *p.session.ana
				log.Members = nil
				if got, want := log.State(1, a.group()), l.sides[k].listener.ANAState(group); got != want {
					t.Errorf("by Identify data: in group %d path %d is %v, want %v", group, k, got, want)
				}
				s.mu.Unlock()
			}
		}
	})
}

// TestANALogFails: a log that could not be read, or was invalid, is read again without another event.
func TestANALogFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		l.sides[0].set(capsule.ANAInaccessible)
		time.Sleep(200 * time.Millisecond)
		ses := s.Paths()[0].session
		understood := func(groups uint32) (err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			ses.ctrl.Identify().ANAGRPMAX = groups
			return ses.anaErr
		}
		groups := ses.ctrl.Identify().ANAGRPMAX
		understood(0)
		l.sides[0].set(capsule.ANAOptimized)
		time.Sleep(50 * time.Millisecond)
		if understood(groups) == nil {
			t.Fatal("the log was read")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d, err := took(func() error { return n.FlushContext(ctx) })
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, "the flush", d, 0, time.Second)
	})
}

// TestChangedNamespacesFails: a failed query about changed namespaces is repeated.
func TestChangedNamespacesFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		l.namespace(s)
		p := s.Paths()[0]
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if s.rescan(ctx, p.session, true); !p.rescan.Load() {
			t.Fatal("it is not to be asked again")
		}
		p.readANASoon()
		time.Sleep(time.Second)
		if p.rescan.Load() {
			t.Error("it was not asked again")
		}
	})
}

// TestSetPolicy: another policy applies to the next request.
func TestSetPolicy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		s := l.connect(l.config())
		n := l.namespace(s)
		first, second := used(t, n), used(t, n)
		if s.Policy() != NUMA || first != second {
			t.Errorf("at first the policy is %v", s.Policy())
		}
		l.must(s.SetPolicy(RoundRobin))
		first, second = used(t, n), used(t, n)
		if s.Policy() != RoundRobin || first == second {
			t.Errorf("the policy is %v, and the same path is used again", s.Policy())
		}
		if s.SetPolicy(Latency+1) == nil || s.Policy() != RoundRobin {
			t.Error("a policy that there is not is set")
		}
	})
}

// TestANAUnderLoad: states change while requests are in flight, also so that for a time no path can be used.
func TestANAUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		s := l.connect(l.config())
		load := startLoad(t, l.namespace(s))
		for _, state := range []capsule.ANAState{capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAChange, capsule.ANAPersistentLoss} {
			for i := range l.sides {
				load.progress()
				l.sides[i].set(state)
				load.progress()
				l.sides[i].set(capsule.ANAOptimized)
			}
		}
		load.progress()
		for _, side := range l.sides {
			side.set(capsule.ANAInaccessible)
		}
		time.Sleep(time.Second)
		before := load.ops.Load()
		time.Sleep(time.Second)
		if load.ops.Load() != before {
			t.Error("requests end although all paths are inaccessible")
		}
		l.sides[1].set(capsule.ANANonOptimized)
		load.progress()
		load.stop()
		for _, p := range s.Paths() {
			if st := p.Status(); st.Reconnects != 0 || st.State != StateLive {
				t.Errorf("status %+v", st)
			}
		}
	})
}

// TestPersistentLoss: requests fail if all paths are in persistent loss for ANATT, 10 s with our target.
func TestPersistentLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		n := l.namespace(l.connect(l.config()))
		for _, side := range l.sides {
			side.set(capsule.ANAPersistentLoss)
		}
		var none *NoPathError
		d, err := took(n.Flush)
		if !errors.As(err, &none) {
			t.Fatalf("%v after %v", err, d)
		}
		wantBetween(t, "the flush", d, 9*time.Second, 11*time.Second)
		if d, err = took(n.Flush); !errors.As(err, &none) || d > time.Second {
			t.Errorf("%v after %v", err, d)
		} else if none.Paths[0].State != StateLive || none.Paths[0].Err == nil {
			t.Errorf("%v", err)
		}
	})
}

// TestPersistentLossMoves: a group that is in persistent loss first on one path and then on the other loses no request,
// even if the host reads the second state before it reads that the first has ended.
func TestPersistentLossMoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		n := l.namespace(l.connect(l.config()))
		for _, side := range l.sides {
			side.set(capsule.ANAPersistentLoss)
		}
		time.AfterFunc(time.Second, func() { l.sides[0].set(capsule.ANAOptimized) })
		d, err := took(n.Flush)
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, "the flush", d, time.Second, 2*time.Second)
	})
}

// TestTransitionTimeout: a path whose state stays Change is reconnected after ANATT, 10 s with our target.
func TestTransitionTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		l.sides[0].set(capsule.ANAChange)
		time.AfterFunc(15*time.Second, func() { l.sides[0].set(capsule.ANAOptimized) })
		d, err := took(n.Flush)
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, "the flush", d, 15*time.Second, 16*time.Second)
		if st := s.Paths()[0].Status(); st.Reconnects != 1 {
			t.Errorf("status %+v", st)
		}
	})
}
