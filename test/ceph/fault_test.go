package ceph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

// own returns a cluster that the test may damage. It skips the test if the cluster is that of -conf.
func own(t *testing.T) *Cluster {
	c := cluster(t)
	if *existing != "" {
		t.Skip("the cluster of -conf is not harmed")
	}
	return c
}

// A writer writes blocks with a count in them, one at a time, and records which were acknowledged.
type writer struct {
	t      *testing.T
	q      backend.Queue
	count  uint64
	blocks [64]uint64 // last acknowledged count of each block
}

func newWriter(t *testing.T, s *rbd.Store) *writer {
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{t: t, q: q}
}

// do makes a request and returns its result. It waits as long as a cluster may need to recover.
func (w *writer) do(r backend.Request) error {
	w.t.Helper()
	w.q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for end := time.Now().Add(2 * time.Minute); w.q.Poll(got[:]) == 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			w.t.Fatal("no result in two minutes")
		}
	}
	return got[0].Err
}

func (w *writer) write() error {
	w.count++
	at := w.count % uint64(len(w.blocks))
	b := backendtest.Buffer(4096, 4096)
	copy(b, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, w.count), 512))
	err := w.do(backend.Request{Op: backend.OpWrite, Offset: int64(at) * 4096, Length: 4096, Buf: b, FUA: w.count%3 == 0})
	if err == nil {
		w.blocks[at] = w.count
	}
	return err
}

// during writes, without errors, until f has returned and 100 more blocks are written.
func (w *writer) during(f func() error) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for left := -1; left != 0; left-- {
		if err := w.write(); err != nil {
			w.t.Fatalf("write %d: %v", w.count, err)
		}
		select {
		case err := <-done:
			if err != nil {
				w.t.Fatal(err)
			}
			left = 100
		default:
		}
	}
}

// verify checks that every block has what was acknowledged last.
func (w *writer) verify() {
	w.t.Helper()
	for at, want := range w.blocks {
		b := backendtest.Buffer(4096, 4096)
		if err := w.do(backend.Request{Op: backend.OpRead, Offset: int64(at) * 4096, Length: 4096, Buf: b}); err != nil {
			w.t.Fatalf("read: %v", err)
		}
		if !bytes.Equal(b, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, want), 512)) {
			w.t.Errorf("block %d has %d, want %d, which was acknowledged", at, binary.LittleEndian.Uint64(b), want)
		}
	}
}

func (w *writer) close(s *rbd.Store) {
	w.t.Helper()
	if err := errors.Join(w.q.Close(), s.Close()); err != nil {
		w.t.Error(err)
	}
}

// TestOSDKilled: requests wait until the other OSD has taken over.
func TestOSDKilled(t *testing.T) {
	c := own(t)
	s, _ := open(t, c, rbd.Config{Size: 20 << 20})
	w := newWriter(t, s)
	defer w.close(s)
	w.during(func() error { return nil })
	for _, daemon := range []string{"osd.0", "osd.1"} {
		w.during(func() error { return c.Signal(daemon, syscall.SIGKILL) })
		w.during(func() error { return c.StartDaemon(daemon) })
		w.verify()
		if _, err := c.Run("ceph", "osd", "wait-up", daemon); err != nil {
			time.Sleep(10 * time.Second) // older versions of ceph have no wait-up
		}
	}
}

// TestClusterGone: while the whole cluster hangs requests wait, and nothing is lost.
func TestClusterGone(t *testing.T) {
	c := own(t)
	s, _ := open(t, c, rbd.Config{Size: 20 << 20})
	w := newWriter(t, s)
	defer w.close(s)
	w.during(func() error { return nil })
	all := func(sig syscall.Signal) error {
		return errors.Join(c.Signal("osd.0", sig), c.Signal("osd.1", sig), c.Signal("mon", sig))
	}
	w.during(func() error {
		err := all(syscall.SIGSTOP)
		time.Sleep(15 * time.Second)
		return errors.Join(err, all(syscall.SIGCONT))
	})
	w.verify()
}

// TestLocked: a second store of one image is refused, with an error that names the client that has the lock.
func TestLocked(t *testing.T) {
	c := cluster(t)
	s, name := open(t, c, rbd.Config{Size: 20 << 20})
	var locked *rbd.LockedError
	if _, err := rbd.Open(name, rbd.Config{Conf: c.Conf}); !errors.As(err, &locked) {
		t.Errorf("a second store: %v", err)
	}
	reader, err := rbd.Open(name, rbd.Config{Conf: c.Conf, ReadOnly: true})
	if err != nil {
		t.Errorf("one that only reads: %v", err)
	} else if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = rbd.Open(name, rbd.Config{Conf: c.Conf}); err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshot: the content of a snapshot does not change.
func TestSnapshot(t *testing.T) {
	c := cluster(t)
	s, name := open(t, c, rbd.Config{Size: 20 << 20})
	w := newWriter(t, s)
	w.during(func() error { return nil })
	was := w.blocks
	if _, err := c.Run("rbd", "snap", "create", name+"@then"); err != nil {
		t.Fatal(err)
	}
	w.during(func() error { return nil })
	w.close(s)
	s, err := rbd.Open(name+"@then", rbd.Config{Conf: c.Conf})
	if err != nil {
		t.Fatal(err)
	}
	w = newWriter(t, s)
	defer w.close(s)
	w.blocks = was
	w.verify()
}
