package disk

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// whole is a disk with the other methods of a store.
type whole struct{ *Disk }

func (whole) Allocated() (int64, error) { return 0, nil }

// copying is a disk that is configured to copy even if the file system does not share blocks, which is slow but
// correct.
func copying(t *testing.T, e Engine, block int) *Disk {
	return openDisk(t, Config{Options: Options{Engine: e}, Info: backend.Info{
		Size: 20 << 20, BlockSize: block, Alignment: 1, Volatile: true, Compare: true, Copy: true,
	}})
}

func TestCopy(t *testing.T) {
	for _, engine := range []Engine{EngineAuto, EngineThreads} {
		for _, block := range []int{512, 4096} {
			t.Run(fmt.Sprintf("%v, %d", engine, block), func(t *testing.T) {
				backendtest.RunCopy(t, func(t *testing.T) backend.Store { return whole{copying(t, engine, block)} })
			})
		}
	}
}

// TestCopyUnsupported: an error of the file system is remembered, so that it is not asked again. Copies within one
// stripe are unsupported too.
func TestCopyUnsupported(t *testing.T) {
	s := copying(t, EngineThreads, 512)
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	do := func(r backend.Request) error {
		t.Helper()
		if q.Submit([]backend.Request{r}) != 1 {
			t.Fatal("not taken")
		}
		var got [1]backend.Result
		for q.Poll(got[:]) == 0 {
		}
		return got[0].Err
	}
	if err := do(backend.Request{Op: backend.OpCopy, From: 0, Offset: 512, Length: 512}); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("two blocks of one stripe: %v", err)
	}
	s.noCopy.Store(true)
	if err := do(backend.Request{Op: backend.OpCopy, From: 0, Offset: 1 << 20, Length: 8192}); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("after the file system refused: %v", err)
	}
	s.noCopy.Store(false)
	b := backendtest.Buffer(8192, 4096)
	copy(b, "copied")
	if err := do(backend.Request{Op: backend.OpWrite, Length: 8192, Buf: b}); err != nil {
		t.Fatal(err)
	}
	if err := do(backend.Request{Op: backend.OpCopy, From: 0, Offset: 1 << 20, Length: 8192}); err != nil {
		t.Fatal(err)
	}
	got := backendtest.Buffer(8192, 4096)
	if err := do(backend.Request{Op: backend.OpRead, Offset: 1 << 20, Length: 8192, Buf: got}); err != nil || !bytes.Equal(got, b) {
		t.Errorf("read something else than copied, %v", err)
	}
	// A copy in flight does not keep the queue from closing.
	q.Submit([]backend.Request{{Op: backend.OpCopy, From: 0, Offset: 2 << 20, Length: 1 << 20}})
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if !s.blocks.Free() {
		t.Error("blocks are still held")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
