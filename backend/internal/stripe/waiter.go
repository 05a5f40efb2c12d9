package stripe

import "sync/atomic"

// A Waiter represents a queue that may sleep while its operations wait for other operations to release stripes.
type Waiter struct {
	table  *Table
	notify func()
	armed  atomic.Bool
}

// Join adds a waiter. notify is called on the goroutine that releases stripes, so it must not block.
func (t *Table) Join(notify func()) *Waiter {
	w := &Waiter{table: t, notify: notify}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.waiters.Load()
	list := append(make([]*Waiter, 0, len(old)+1), old...)
	list = append(list, w)
	t.waiters.Store(&list)
	return w
}

// Leave removes the waiter. A call of notify that has begun may still be running.
func (w *Waiter) Leave() {
	w.disarm()
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Waiter
	for _, other := range *t.waiters.Load() {
		if other != w {
			list = append(list, other)
		}
	}
	t.waiters.Store(&list)
}

// Arm requests one call of notify at the next release. Retry refused operations once more after Arm, since the release
// may have just happened.
func (w *Waiter) Arm() {
	if w.armed.Load() {
		return
	}
	w.table.armed.Add(1) // first, so that the count is never too low
	if !w.armed.CompareAndSwap(false, true) {
		w.table.armed.Add(-1)
	}
}

func (w *Waiter) disarm() bool {
	was := w.armed.CompareAndSwap(true, false)
	if was {
		w.table.armed.Add(-1)
	}
	return was
}

// Wake notifies every armed waiter. If there is none it costs one load.
func (t *Table) Wake() {
	if t.armed.Load() == 0 {
		return
	}
	for _, w := range *t.waiters.Load() {
		if w.disarm() {
			w.notify()
		}
	}
}
