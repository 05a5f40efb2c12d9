package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A writer is a host that writes to namespace 1: into each block the number of the file that it believes to be
// there.
type writer struct {
	t       *testing.T
	ctrl    *host.Controller
	files   map[[16]byte]uint64 // numbers by NGUID; constant
	current atomic.Pointer[handle]
	wrote   []atomic.Int64 // blocks, by file
	close   func()         // ends it

	looking sync.Mutex
}

// A handle is a namespace that the host has opened.
type handle struct {
	*host.Namespace
	file uint64
}

// look does what a host does when it is notified of a change: it closes handles of namespaces that are gone, and
// opens the present ones.
func (w *writer) look() {
	w.looking.Lock()
	defer w.looking.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := w.ctrl.Logs().ChangedNamespaces(ctx); err != nil {
		return // the test ends
	}
	if h := w.current.Load(); h != nil {
		if _, err := h.Refresh(); err == nil {
			return
		}
		w.current.Store(nil)
	}
	ns, err := w.ctrl.Namespace(ctx, 1)
	if err != nil {
		return // it is not available at the moment
	}
	file, ok := w.files[ns.Identifiers().NGUID]
	if !ok {
		w.t.Errorf("a namespace that nobody has made: %x", ns.Identifiers().NGUID)
	}
	w.current.Store(&handle{ns, file})
}

// write writes until the end, from one of several goroutines: for each file at a place of its own, so that a
// misdirected write remains visible.
func (w *writer) write(until context.Context, first int64) {
	const block = 4096
	b := make([]byte, block)
	for at := first; until.Err() == nil; at = (at + 4) % 64 {
		h := w.current.Load()
		if h == nil {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		for i := 0; i < block; i += 8 {
			binary.LittleEndian.PutUint64(b[i:], h.file)
		}
		if _, err := h.WriteAt(b, (int64(h.file)*64+at)*block); err == nil {
			w.wrote[h.file].Add(1)
		}
	}
}

// replacedRounds is the number of files of the test.
const replacedRounds = 6

// newWriter connects a host that knows the files.
func newWriter(t *testing.T, from, to netip.Addr) *writer {
	t.Helper()
	w := &writer{t: t, files: map[[16]byte]uint64{}, wrote: make([]atomic.Int64, replacedRounds+1)}
	for i := range replacedRounds + 1 {
		w.files[[16]byte{15: byte(i)}] = uint64(i)
	}
	dev, err := softroce.Open(softroce.Config{Addr: from})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan capsule.AsyncEvent)
	w.ctrl, err = h.Connect(t.Context(), host.Options{Traddr: to, Trsvcid: 4420, NQN: "nqn.2026-11.io.example:a", Events: events})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { // ends with ctx
		for {
			select {
			case <-events:
				time.Sleep(10 * time.Millisecond) // a host with much to do may take as long
				w.look()
			case <-ctx.Done():
				return
			}
		}
	})
	w.look()
	for i := range int64(4) {
		tasks.Go(func() { w.write(ctx, i) }) // ends with ctx
	}
	w.close = func() {
		stop()
		tasks.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(w.ctrl.Disconnect(ctx), h.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	}
	return w
}

// TestReplaceUnderLoad: blocks that a host writes to one file are in no other, however often the file of a
// namespace is replaced meanwhile.
func TestReplaceUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	serve := func(file int) {
		t.Helper()
		doc := r.doc(fmt.Sprintf("version: 1\nlisteners:\n  - id: 1\n    address: ADDR:4420\nsubsystems:\n  - nqn: nqn.2026-11.io.example:a\n"+
			"    allow-any-host: true\n    namespaces:\n      - nsid: 1\n        file:\n          path: DIR/%d\n          size: 4MiB\n"+
			"        nguid: \"%032x\"\n", file, file))
		if _, err := r.Apply(doc, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	serve(1)
	w := newWriter(t, r.second, r.addr)
	for file := 1; file <= replacedRounds; file++ {
		if file > 1 {
			serve(file)
		}
		for limit := time.Now().Add(20 * time.Second); w.wrote[file].Load() < 200; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("the host has written %d blocks of file %d", w.wrote[file].Load(), file)
			}
		}
	}
	w.close()
	for file := uint64(1); file <= replacedRounds; file++ {
		b, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprint(file)))
		if err != nil {
			t.Fatal(err)
		}
		foreign := 0
		for i := 0; i < len(b); i += 8 {
			if v := binary.LittleEndian.Uint64(b[i:]); v != 0 && v != file {
				foreign++
			}
		}
		if foreign > 0 {
			t.Errorf("file %d has %d words that were meant for another", file, foreign)
		}
	}
}
