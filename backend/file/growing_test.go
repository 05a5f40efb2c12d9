package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A growth is how the file of a losingFS grows: slowly, once the name growName was looked up. Each fallocate(2) waits
// until one of the names endName and refuseName is looked up. Looking up begunName waits for the next call.
type growth struct {
	on    *atomic.Bool
	size  *atomic.Uint64 // without data; 0: as long as the data
	begun chan bool
	end   chan fuse.Status
}

const (
	growName   = "grow"
	begunName  = "begun"
	endName    = "end"
	refuseName = "refuse"
)

func newGrowth() growth {
	return growth{new(atomic.Bool), new(atomic.Uint64), make(chan bool), make(chan fuse.Status)}
}

func (g *growth) obey(name string) {
	switch name {
	case growName:
		g.on.Store(true)
	case begunName:
		<-g.begun
	case endName:
		g.end <- fuse.OK
	case refuseName:
		g.end <- fuse.Status(syscall.EDQUOT)
	}
}

// Fallocate extends the file at once, like ext4 extent by extent.
func (f *losingFS) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	g := &f.growth
	if !g.on.Load() {
		return fuse.ENOSYS
	}
	if in.Mode&unix.FALLOC_FL_PUNCH_HOLE != 0 {
		return fuse.OK
	}
	if in.Mode&unix.FALLOC_FL_KEEP_SIZE == 0 {
		g.size.Store(in.Offset + in.Length)
	}
	g.begun <- true
	return <-g.end
}

// growSlowly runs as root of its own user namespace.
func growSlowly(dir string) {
	mounted(dir, true, func(dir string) error {
		s, err := Open(filepath.Join(dir, losingName), Config{})
		if err != nil {
			return err
		}
		return errors.Join(growStore(s, dir), s.Close())
	})
	fmt.Println("done")
}

// growStore makes a store longer, and finds no space in the last step. Then it succeeds.
func growStore(s *Store, dir string) error {
	look := func(name string) { _, _ = os.Stat(filepath.Join(dir, name)) }
	size := func(want int64) error {
		if _, err := s.Refresh(); err != nil || s.Info().Size != want {
			return fmt.Errorf("%d bytes, want %d; %w", s.Info().Size, want, err)
		}
		return nil
	}
	const steps = 5
	want := int64(steps * reserveStep)
	grown, written := make(chan error, 1), make(chan error, 1)
	extend := func() { grown <- s.Extend(want) } // ends when the last step has ended
	if _, total, err := s.Room(); err != nil || total != losingSize {
		return fmt.Errorf("a file system of %d bytes has %d; %w", losingSize, total, err)
	}
	look(growName)
	go extend()
	look(begunName)
	go func() { written <- carriedOut(s, writeRequest(4096, 1)) }() // ends before the last step
	for range steps - 1 {
		if err := size(losingSize); err != nil {
			return fmt.Errorf("while it grows: %w", err)
		}
		time.Sleep(10 * time.Millisecond) // from then on the kernel lets no other call overtake the write
		look(endName)
		look(begunName)
	}
	select {
	case err := <-written:
		if err != nil {
			return err
		}
	case <-time.After(10 * time.Second):
		return errors.New("a write waits until the file has grown")
	}
	look(refuseName)
	if err := <-grown; !errors.Is(err, backend.ErrNoSpace) {
		return fmt.Errorf("without space: %w", err)
	}
	if err := size(losingSize); err != nil {
		return fmt.Errorf("after it could not grow: %w", err)
	}
	go extend()
	for range steps {
		look(begunName)
		look(endName)
	}
	return errors.Join(<-grown, size(want))
}

// carriedOut executes a request.
func carriedOut(s *Store, r backend.Request) error {
	q, err := s.NewQueue(1, nil)
	if err != nil {
		return err
	}
	q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
		time.Sleep(time.Millisecond)
	}
	return errors.Join(got[0].Err, q.Close())
}

// TestGrowsAtOnce: while a file is made longer, its I/O goes on, and its size is the old one until all of the new
// storage is there. If that cannot be had, nobody has seen another size.
func TestGrowsAtOnce(t *testing.T) {
	runOnFUSE(t, "grow")
}

// TestReserving: how long the allocation took is known, since whoever opened the file may not have waited for it.
func TestReserving(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 1 << 20})
	defer closeStore(t, s)
	if s.Reserving() <= 0 {
		t.Errorf("allocating took %v", s.Reserving())
	}
}
