package attachcommand

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// TestOthersAreFlushed checks that a namespace that does not answer does not keep others from being flushed, in any
// order.
func TestOthersAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		hung := func(context.Context) error { <-answers; return nil }
		flushed := 0
		well := func(ctx context.Context) error {
			if ctx.Err() == nil {
				flushed++
			}
			return nil
		}
		p := &publisher{controllers: []connections.Controller{live{}}, namespaces: []connections.Namespace{
			{ID: 1, Store: volatile{}, Flush: hung}, {ID: 2, Store: volatile{}, Flush: well}, {ID: 3, Store: volatile{}, Flush: hung},
		}}
		began := time.Now()
		err := p.flush()
		if took := time.Since(began); took != connections.FlushTime {
			t.Errorf("it took %v, want %v", took, connections.FlushTime)
		}
		if flushed != 1 || err == nil || strings.Count(err.Error(), "no answer within 5s") != 2 || strings.Contains(err.Error(), "namespace 2") {
			t.Errorf("%d flushed, %v", flushed, err)
		}
		close(answers)
	})
}

// A hanging subsystem has one namespace, which answers only when the subsystem is closed.
type hanging struct {
	connections.Subsystem
	namespace connections.Namespace
	fault     *backendtest.Fault
	closed    int
}

func (s *hanging) Namespaces(context.Context) ([]connections.Namespace, error) {
	return []connections.Namespace{s.namespace}, nil
}

func (s *hanging) Waiting() []capsule.NSID { return nil }

func (s *hanging) Close() error {
	s.closed++
	s.fault.Release()
	return nil
}

// TestLeavesWhileDiskHangs checks that requests that a namespace does not answer do not keep attach from disconnecting
// its controllers, once, after the time allowed for clients.
func TestLeavesWhileDiskHangs(t *testing.T) {
	m, err := memory.New(memory.Config{Size: 1 << 20, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	store := backendtest.NewFaulty(m)
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Hold: backendtest.HoldRequest})
	s := &hanging{namespace: connections.Namespace{ID: 1, Store: store}, fault: fault}
	f := &front{cfg: nbd.Config{Socket: filepath.Join(t.TempDir(), "s"), Drain: 20 * time.Millisecond}}
	p := &publisher{
		subsystem: s, front: f, controllers: []connections.Controller{live{}}, names: []string{"192.0.2.1"},
		reported: make([]connections.News, 1), warn: io.Discard, lines: linesTo(io.Discard), news: make(chan struct{}, 1),
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := p.serve(ctx, &stopper{stop: func() { ask(t, f.cfg.Socket); stop() }}); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := f.Close(); err == nil || !strings.Contains(err.Error(), "not completed in 20ms") {
		t.Error(err)
	}
	if err := p.leave(); err != nil || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// A stopper calls stop when something is printed.
type stopper struct {
	bytes.Buffer
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return s.Buffer.Write(b)
}

// ask sends a read, and then one beyond the end of the disk (the NBD project's doc/proto.md), and returns when the
// second is answered.
func ask(t *testing.T, socket string) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b := []byte{0, 0, 0, 3}
	b = append(b, "IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x00"...)
	for _, offset := range []uint64{0, 1 << 63} {
		b = binary.BigEndian.AppendUint32(b, 0x25609513)
		b = append(b, make([]byte, 12)...)
		b = binary.BigEndian.AppendUint64(b, offset)
		b = binary.BigEndian.AppendUint32(b, 512)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	var answer [18 + 10 + 16]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		t.Fatal(err)
	}
}
