package target

import "sync/atomic"

// Change calls f, which makes a change of several steps that hosts see as one. Meanwhile, a host that is not
// allowed by the configuration so far gets a status that it retries, since a later step may allow it; and the
// discovery log, with its events, stays as it was. When f has returned, controllers are checked against the
// result. Changes may overlap and nest.
func (t *Target) Change(f func() error) error {
	t.mu.Lock()
	t.unsettled.begin()
	if t.changing++; t.changing == 1 {
		t.shown = t.discoveryInput(nil).kept()
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

// unsettled lets shards find out whether a [Target.Change] is under way.
type unsettled struct {
	now   atomic.Int32  // number of changes under way
	ended atomic.Uint64 // number of changes that have ended
}

func (u *unsettled) begin() { u.now.Add(1) }

func (u *unsettled) end() {
	u.ended.Add(1)
	u.now.Add(-1)
}

// within reports whether a change is under way, and none has ended since the mark.
func (u *unsettled) within(mark uint64) bool { return u.now.Load() > 0 && u.mark() == mark }

// mark returns the value to pass to since or within later.
func (u *unsettled) mark() uint64 { return u.ended.Load() }

// since reports whether a change was under way at any time since the mark.
func (u *unsettled) since(mark uint64) bool { return u.now.Load() > 0 || u.ended.Load() != mark }
