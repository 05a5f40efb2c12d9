package rados

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A fakeObject replaces an object of a cluster. Several stores may share it.
type fakeObject struct {
	mu      sync.Mutex
	keys    map[string][]byte
	watches map[*fakeWatch]bool

	errno  unix.Errno    // of writes and reads
	watchE error         // of watch
	lossy  bool          // writes get no reply
	mute   bool          // messages are lost
	hold   chan struct{} // nil: nothing hangs
	takes  time.Duration // of each write and read
	writes int           // executed or not
	reads  int
	most   int    // maximum entries of a page; 0: as requested
	read1  func() // called before each read
	closed int
}

func newFake() *fakeObject {
	return &fakeObject{keys: map[string][]byte{counter: bytesOf(first)}, watches: make(map[*fakeWatch]bool)}
}

func (o *fakeObject) hang() error {
	o.mu.Lock()
	hold, errno, takes := o.hold, o.errno, o.takes
	o.mu.Unlock()
	time.Sleep(takes)
	if hold != nil {
		<-hold
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func (o *fakeObject) write(steps []step) error {
	if err := o.hang(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	for _, s := range steps {
		if s.kind == stepCompare && string(o.keys[s.key]) != string(s.value) {
			return unix.ECANCELED
		}
	}
	for _, s := range steps {
		switch s.kind {
		case stepSet:
			o.keys[s.key] = slices.Clone(s.value)
		case stepRemove:
			delete(o.keys, s.key)
		}
	}
	if o.lossy {
		return unix.ETIMEDOUT
	}
	return nil
}

func (o *fakeObject) read(keys []string, pages ...page) (named []entry, lists []listed, err error) {
	if err := o.hang(); err != nil {
		return nil, nil, err
	}
	if o.read1 != nil {
		o.read1()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	for _, k := range keys {
		if v, ok := o.keys[k]; ok {
			named = append(named, entry{k, slices.Clone(v)})
		}
	}
	var all []string
	if len(pages) > 0 {
		all = slices.Sorted(maps.Keys(o.keys))
	}
	for _, p := range pages {
		lists = append(lists, o.list(all, p))
	}
	return named, lists, nil
}

func (o *fakeObject) list(all []string, p page) (l listed) {
	if o.most > 0 {
		p.most = min(p.most, o.most)
	}
	for _, k := range all {
		if k <= p.after || !strings.HasPrefix(k, p.prefix) {
			continue
		}
		if l.more = len(l.entries) == p.most; l.more {
			return l
		}
		l.entries = append(l.entries, entry{k, slices.Clone(o.keys[k])})
	}
	return l
}

func (o *fakeObject) notify(message string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.watches {
		if !o.mute {
			w.messages <- []byte(message)
		}
	}
	return nil
}

func (o *fakeObject) watch() (watch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watchE != nil {
		return nil, o.watchE
	}
	w := &fakeWatch{o: o, messages: make(chan []byte, 1000), lost: make(chan struct{}), woken: make(chan struct{}, 1)}
	o.watches[w] = true
	return w, nil
}

// lose makes all watches fail.
func (o *fakeObject) lose() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.watches {
		close(w.lost)
	}
	clear(o.watches)
}

func (o *fakeObject) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *fakeObject) close() { o.set(func() { o.closed++ }) }

type fakeWatch struct {
	o           *fakeObject
	messages    chan []byte
	lost, woken chan struct{}
}

func (w *fakeWatch) next(most time.Duration) ([][]byte, error) {
	select {
	case m := <-w.messages:
		return [][]byte{m}, nil
	case <-w.lost:
		return nil, errors.New("lost")
	case <-w.woken:
	case <-time.After(most):
	}
	return nil, nil
}

func (w *fakeWatch) wake()  { w.woken <- struct{}{} }
func (w *fakeWatch) close() { w.o.set(func() { delete(w.o.watches, w) }) }

// fakeStore returns a store on an object.
func fakeStore(t *testing.T, o *fakeObject) *Store {
	t.Helper()
	s, err := open(t.Context(), Config{Pool: "rbd", Group: "a"}, func(*Config, []step) (object, error) { return o, nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}
