package target

import "sync/atomic"

// Change calls f, which makes a change of several steps. To hosts it is one: a host that
// what an administrator has said so far keeps out is told to come again, since a later
// step may let it in, and the discovery log, with its events, is that of before until f
// returns. Who may stay is judged by what it has come to. Changes may be made at the same time, and one inside the other.
func (t *Target) Change(f func() error) error {
	t.mu.Lock()
	t.unsettled.begin()
	if t.changing++; t.changing == 1 {
		t.shown = t.scene(nil).kept()
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.changing--; t.changing == 0 {
			t.discSub.mu.Lock()
			defer t.discSub.mu.Unlock()
			before := t.discoveryLogs(t.shown)
			t.shown = nil
			t.reveal(before, nil)
			for _, s := range t.subsystems {
				s.settle()
			}
		}
		t.unsettled.end()
	}()
	return f()
}

// unsettled tells shards whether a [Target.Change] is under way.
type unsettled struct {
	now   atomic.Int32  // how many are
	ended atomic.Uint64 // how many were
}

func (u *unsettled) begin() { u.now.Add(1) }

func (u *unsettled) end() {
	u.ended.Add(1)
	u.now.Add(-1)
}

// mark is what since compares with.
func (u *unsettled) mark() uint64 { return u.ended.Load() }

// since reports whether a change was under way at any time since the mark.
func (u *unsettled) since(mark uint64) bool { return u.now.Load() > 0 || u.ended.Load() != mark }
