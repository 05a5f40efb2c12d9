package nbd

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// TestClientsOfAHungDisk: clients that have gone while a disk does not answer their requests occupy no places of
// others. The disk accepts only a few of them.
func TestClientsOfAHungDisk(t *testing.T) {
	store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
	const clients = 8
	s := serve(t, Config{Clients: clients}, store, newStore(t, 1<<20, 512))
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Hold: backendtest.HoldRequest})
	t.Cleanup(fault.Release)
	busy := connect(t, s, how{export: "1"}) // and stays
	for i := range s.cfg.gone() {
		c := connect(t, s, how{export: "1"})
		c.ask(wire.Request{Command: wire.CmdRead, Length: 512}, nil)
		for s.Stats().Requests <= uint64(i) {
			time.Sleep(time.Millisecond)
		}
		_ = c.c.Close()
		for s.Stats().Lost <= uint64(i) {
			time.Sleep(time.Millisecond)
		}
	}
	var others []*client
	for range clients - 1 {
		others = append(others, connect(t, s, how{export: "2"}))
	}
	for _, c := range others {
		c.read(0, 512)
	}
	_ = others[0].c.Close()
	for s.Stats().Lost <= uint64(s.cfg.gone()) {
		time.Sleep(time.Millisecond)
	}
	c := &client{t: t, c: dial(t, s), lengths: map[wire.Cookie]int{}}
	c.get(18)
	c.put([]byte{0, 0, 0, 3})
	c.option(wire.OptGo, []byte{0, 0, 0, 1, '1', 0, 0})
	if got := c.optionReply(); got != wire.RepErrShutdown {
		t.Errorf("another client of the disk that hangs: %#x", got)
	}
	fault.Release()
	busy.read(0, 512)
	for got := wire.RepErrShutdown; got == wire.RepErrShutdown; { // once they are gone
		c.option(wire.OptGo, []byte{0, 0, 0, 1, '1', 0, 0})
		for got = c.optionReply(); got == wire.RepInfo; got = c.optionReply() {
		}
	}
	c.read(0, 512)
}

// TestCloseWhileDiskHangs: Close waits for the requests of a disk that hangs, until Overdue makes them end, by when
// clients have had their time. Requests of another disk are answered.
func TestCloseWhileDiskHangs(t *testing.T) {
	hung := backendtest.NewFaulty(newStore(t, 1<<20, 512))
	fault := hung.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
	calls := 0 // owned by the loop until Close returns
	s, err := Listen(Config{Socket: filepath.Join(t.TempDir(), "s"), Drain: 20 * time.Millisecond, Overdue: func() { calls++; fault.Release() }},
		disks(hung, newStore(t, 1<<20, 512))...)
	if err != nil {
		t.Fatal(err)
	}
	busy, other := connect(t, s, how{export: "1"}), connect(t, s, how{export: "2"})
	other.write(0, random(512))
	busy.ask(wire.Request{Command: wire.CmdWrite, Length: 512}, random(512))
	for s.Stats().Requests < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "requests were not completed in 20ms") || calls != 1 {
		t.Errorf("%v, after %d calls", err, calls)
	}
	busy.gone()
	other.gone()
}

// TestCloseIsNotOverdue: a client that does not read its replies has no requests in a store.
func TestCloseIsNotOverdue(t *testing.T) {
	s, err := Listen(Config{Socket: filepath.Join(t.TempDir(), "s"), Drain: 20 * time.Millisecond, Overdue: func() { t.Error("overdue") }}, disks(newStore(t, 64<<20, 512))...)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s, how{})
	c.ask(wire.Request{Command: wire.CmdRead, Length: 32 << 20}, nil) // more than sockets hold
	for s.Stats().Requests < 1 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "requests were not completed") {
		t.Error(err)
	}
}
