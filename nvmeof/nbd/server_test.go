package nbd

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

func random(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = source.Read(b)
	return b
}

// TestReadBack: each command, in each polling mode, with both kinds of replies.
func TestReadBack(t *testing.T) {
	for name, p := range pollings {
		for _, structured := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, Config{Polling: p}, newStore(t, 64<<20, 512))
				c := connect(t, s, how{structured: structured, blockSize: true})
				if want := wire.HasFlags | wire.SendFlush | wire.SendFUA | wire.SendDF | wire.SendWriteZeroes | wire.SendFastZero | wire.SendTrim | wire.CanMultiConn; c.size != 64<<20 || c.flags != want {
					t.Errorf("%d bytes, flags %#x, want %#x", c.size, c.flags, want)
				}
				data := random(1 << 20)
				c.write(4096, data)
				if got := c.read(4096, len(data)); !bytes.Equal(got, data) {
					t.Error("something else is read back")
				}
				c.do(wire.Request{Command: wire.CmdFlush}, nil, wire.OK)
				c.do(wire.Request{Command: wire.CmdWriteZeroes, Offset: 4096, Length: 8192, Flags: wire.FlagFUA | wire.FlagNoHole | wire.FlagFastZero}, nil, wire.OK)
				c.do(wire.Request{Command: wire.CmdTrim, Offset: 1 << 20, Length: 8192, Flags: wire.FlagFUA}, nil, wire.OK)
				clear(data[:8192])
				if got := c.read(4096, 64<<10); !bytes.Equal(got, data[:64<<10]) {
					t.Error("zeroes are not where they should be")
				}
				c.put(wire.AppendRequest(nil, wire.Request{Command: wire.CmdDisc}))
				c.gone()
			})
		}
	}
}

// TestLargest: the largest requests, which use all memory of a client.
func TestLargest(t *testing.T) {
	s := serve(t, Config{}, newStore(t, 64<<20, 4096))
	c := connect(t, s, how{structured: true})
	data := random(maxRequest)
	c.write(512, data) // a part of the first block and the last one
	for range 3 {
		c.ask(wire.Request{Command: wire.CmdRead, Offset: 512, Length: maxRequest}, nil)
	}
	for range 3 {
		if r, got := c.answer(); r.Err != wire.OK || !bytes.Equal(got, data) {
			t.Errorf("%v, or something else is read back", r.Err)
		}
	}
}

// TestRefused: invalid requests get the right error, and do not disturb later ones.
func TestRefused(t *testing.T) {
	s := serve(t, Config{}, newStore(t, 1<<20, 4096))
	c := connect(t, s, how{blockSize: true, structured: true})
	data := random(8192)
	c.write(0, data)
	for _, r := range []struct {
		wire.Request
		want wire.Errno
	}{
		{wire.Request{Command: wire.CmdRead, Offset: 512, Length: 4096}, wire.EINVAL},
		{wire.Request{Command: wire.CmdRead, Offset: 1 << 20, Length: 4096}, wire.EINVAL},
		{wire.Request{Command: wire.CmdWrite, Offset: 100, Length: 8192}, wire.EINVAL},
		{wire.Request{Command: wire.CmdWrite, Offset: 1 << 20, Length: 8192}, wire.ENOSPC},
		{wire.Request{Command: wire.CmdWriteZeroes, Offset: 1 << 20, Length: 4096}, wire.ENOSPC},
		{wire.Request{Command: wire.CmdTrim, Offset: 1 << 20, Length: 4096}, wire.EINVAL},
		{wire.Request{Command: 7, Length: 4096}, wire.EINVAL},
		{wire.Request{Command: wire.CmdWrite, Length: 8192, Flags: 1 << 14}, wire.EINVAL},
		{wire.Request{Command: wire.CmdRead, Length: 64 << 20, Flags: wire.FlagDF}, wire.EOVERFLOW},
	} {
		var payload []byte
		if r.Command == wire.CmdWrite {
			payload = random(int(r.Length))
		}
		c.do(r.Request, payload, r.want)
	}
	// The data of a write that is too long is read and dropped.
	c.do(wire.Request{Command: wire.CmdWrite, Length: 40 << 20}, make([]byte, 40<<20), wire.EINVAL)
	if got := c.read(0, len(data)); !bytes.Equal(got, data) {
		t.Error("a refused request changed something")
	}
	if n := s.Stats().Refused; n != 10 {
		t.Errorf("%d refused, want 10", n)
	}
}

// TestNoStore: a disk without a store is refused.
func TestNoStore(t *testing.T) {
	if _, err := Listen(Config{Socket: t.TempDir() + "/s"}, Disk{Name: "a"}); err == nil || err.Error() != "disk a: Disk.Store is missing" {
		t.Errorf("%v", err)
	}
}

// TestBlockStatus: a client that has selected base:allocation gets the answer that all blocks are allocated, also of a
// read-only disk, and whatever else is in flight. For other clients the command is invalid.
func TestBlockStatus(t *testing.T) {
	for _, store := range []backend.Store{newStore(t, 1<<20, 4096), readOnly{newStore(t, 1<<20, 4096)}} {
		s := serve(t, Config{}, store)
		c := connect(t, s, how{structured: true, allocation: true, blockSize: true})
		c.ask(wire.Request{Command: wire.CmdRead, Length: 8192}, nil)
		c.ask(wire.Request{Command: wire.CmdBlockStatus, Offset: 4096, Length: 1<<20 - 4096, Flags: wire.FlagReqOne}, nil)
		extents := 0
		for range 2 {
			r, _ := c.answer()
			if r.Err != wire.OK {
				t.Errorf("request %d: %v", r.Cookie, r.Err)
			}
			if r.Extent == (wire.Extent{Length: 1<<20 - 4096}) {
				extents++
			}
		}
		if extents != 1 {
			t.Errorf("%d extents, want 1", extents)
		}
		c.do(wire.Request{Command: wire.CmdBlockStatus, Offset: 1 << 20, Length: 4096}, nil, wire.EINVAL)
		c.do(wire.Request{Command: wire.CmdBlockStatus}, nil, wire.EINVAL)
		c.do(wire.Request{Command: wire.CmdBlockStatus, Offset: 512, Length: 4096}, nil, wire.EINVAL)
		connect(t, s, how{structured: true}).do(wire.Request{Command: wire.CmdBlockStatus, Length: 4096}, nil, wire.EINVAL)
		connect(t, s, how{}).do(wire.Request{Command: wire.CmdBlockStatus, Length: 4096}, nil, wire.EINVAL)
	}
}

func TestReadOnly(t *testing.T) {
	s := serve(t, Config{}, readOnly{newStore(t, 1<<20, 512)})
	c := connect(t, s, how{})
	if c.flags&wire.ReadOnly == 0 || c.flags&(wire.SendTrim|wire.SendWriteZeroes) != 0 {
		t.Errorf("flags %#x", c.flags)
	}
	c.read(0, 512)
	c.do(wire.Request{Command: wire.CmdWrite, Length: 512}, make([]byte, 512), wire.EPERM)
	c.do(wire.Request{Command: wire.CmdTrim, Length: 512}, nil, wire.EPERM)
	c.do(wire.Request{Command: wire.CmdFlush}, nil, wire.OK)
}

type readOnly struct{ backend.Store }

func (r readOnly) Info() backend.Info {
	i := r.Store.Info()
	i.ReadOnly = true
	return i
}

// TestPartialBlocks compares single bytes, written by a client without block sizes, with a model, while another client
// writes adjacent whole blocks.
func TestPartialBlocks(t *testing.T) {
	const size = 64 << 10
	s := serve(t, Config{}, newStore(t, size, 4096))
	a, b := connect(t, s, how{structured: true}), connect(t, s, how{})
	model := make([]byte, size)
	dice := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		off := dice.IntN(size - 1)
		n := 1 + dice.IntN(min(size-off, 10000))
		c := []*client{a, b}[dice.IntN(2)]
		switch dice.IntN(3) {
		case 0:
			data := random(n)
			c.write(uint64(off), data)
			copy(model[off:], data)
		case 1:
			c.do(wire.Request{Command: wire.CmdWriteZeroes, Offset: uint64(off), Length: uint32(n)}, nil, wire.OK)
			clear(model[off:][:n])
		case 2:
			if got := c.read(uint64(off), n); !bytes.Equal(got, model[off:][:n]) {
				t.Fatalf("%d bytes at %d differ", n, off)
			}
		}
	}
	a.do(wire.Request{Command: wire.CmdWriteZeroes, Offset: 1, Length: 5, Flags: wire.FlagFastZero}, nil, wire.ENOTSUP)
	a.do(wire.Request{Command: wire.CmdTrim, Offset: 1, Length: 4096}, nil, wire.OK) // not one whole block
	if got := b.read(0, size); !bytes.Equal(got, model) {
		t.Error("the whole differs")
	}
}

// TestPartialBlocksTogether: clients that change parts of the same blocks at the same time do not lose each other's
// changes.
func TestPartialBlocksTogether(t *testing.T) {
	const block, clients, rounds = 4096, 4, 60
	s := serve(t, Config{}, newStore(t, 1<<20, block))
	var wg sync.WaitGroup
	for i := range clients {
		c := connect(t, s, how{})
		wg.Go(func() {
			for r := range rounds {
				for j := range 8 { // each its own bytes of eight blocks, all in flight
					b := bytes.Repeat([]byte{byte(r)}, block/clients)
					c.ask(wire.Request{Command: wire.CmdWrite, Offset: uint64(j*block + i*block/clients), Length: uint32(len(b))}, b)
				}
				for range 8 {
					if r, _ := c.answer(); r.Err != wire.OK {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	wg.Wait()
	got := connect(t, s, how{}).read(0, 8*block)
	if want := bytes.Repeat([]byte{rounds - 1}, 8*block); !bytes.Equal(got, want) {
		t.Error("a change was lost")
	}
}

// TestOutOfOrder: a request that hangs does not delay others.
func TestOutOfOrder(t *testing.T) {
	store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
	s := serve(t, Config{}, store)
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Offset: 0, Length: 512, Hold: backendtest.HoldRequest})
	c := connect(t, s, how{structured: true})
	first := c.ask(wire.Request{Command: wire.CmdRead, Length: 512}, nil)
	c.do(wire.Request{Command: wire.CmdRead, Offset: 512, Length: 512}, nil, wire.OK)
	connect(t, s, how{}).write(4096, random(4096))
	fault.Release()
	if r, _ := c.answer(); r.Cookie != first || r.Err != wire.OK {
		t.Errorf("%+v", r)
	}
}

// TestStoreErrors: errors of the store are returned to the client as the corresponding errno.
func TestStoreErrors(t *testing.T) {
	for err, want := range map[error]wire.Errno{
		backend.ErrNoSpace: wire.ENOSPC, backend.ErrReadOnly: wire.EPERM, backend.ErrFailed: wire.EIO, backend.ErrInvalid: wire.EINVAL,
		backend.ErrOutOfRange: wire.ENOSPC, backend.ErrClosed: wire.EIO,
	} {
		store := backendtest.NewFaulty(newStore(t, 1<<20, 4096))
		s := serve(t, Config{}, store)
		store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Err: err})
		c := connect(t, s, how{})
		c.do(wire.Request{Command: wire.CmdWrite, Length: 4096}, random(4096), want)
		c.do(wire.Request{Command: wire.CmdWrite, Offset: 1, Length: 100}, random(100), want)
		c.read(0, 4096)
	}
	store := backendtest.NewFaulty(newStore(t, 1<<20, 4096))
	s := serve(t, Config{}, store)
	store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Err: backend.ErrFailed})
	c := connect(t, s, how{structured: true})
	c.do(wire.Request{Command: wire.CmdRead, Length: 4096}, nil, wire.EIO)
	c.do(wire.Request{Command: wire.CmdWrite, Offset: 1, Length: 100}, random(100), wire.EIO)
	c.write(0, random(4096))
}

// TestZeroesByWriting: a store without Write Zeroes gets zeroes written, unless FAST_ZERO is set.
func TestZeroesByWriting(t *testing.T) {
	store := backendtest.NewFaulty(newStore(t, 8<<20, 512))
	s := serve(t, Config{}, store)
	store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWriteZeroes}, Err: backend.ErrUnsupported})
	c := connect(t, s, how{blockSize: true})
	data := random(5 << 20)
	c.write(0, data)
	c.do(wire.Request{Command: wire.CmdWriteZeroes, Offset: 512, Length: 3<<20 + 512, Flags: wire.FlagFastZero}, nil, wire.ENOTSUP)
	c.do(wire.Request{Command: wire.CmdWriteZeroes, Offset: 512, Length: 3<<20 + 512}, nil, wire.OK)
	clear(data[512:][:3<<20+512])
	if got := c.read(0, len(data)); !bytes.Equal(got, data) {
		t.Error("zeroes are not where they should be")
	}
}

// TestManyInFlight: a client that does not read sends more requests than there are slots.
func TestManyInFlight(t *testing.T) {
	s := serve(t, Config{}, newStore(t, 1<<20, 512))
	c, other := connect(t, s, how{structured: true}), connect(t, s, how{})
	const n = 3 * depth
	done := make(chan struct{})
	go func() {
		defer close(done)
		var b []byte
		for i := range n {
			b = wire.AppendRequest(b, wire.Request{Command: wire.CmdRead, Cookie: wire.Cookie(i), Length: 64 << 10})
		}
		c.put(b)
	}()
	<-done
	other.write(0, random(512)) // is served meanwhile
	seen := map[wire.Cookie]bool{}
	for i := range n {
		c.lengths[wire.Cookie(i)] = 64 << 10
	}
	for range n {
		r, _ := c.answer()
		if r.Err != wire.OK || seen[r.Cookie] {
			t.Fatalf("%+v", r)
		}
		seen[r.Cookie] = true
	}
}

// TestBadClients: invalid input ends the connection, and no other.
func TestBadClients(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Handshake: 200 * time.Millisecond}, newStore(t, 1<<20, 512))
	good := connect(t, s, how{})
	c := connect(t, s, how{})
	c.ask(wire.Request{Command: wire.CmdFlush}, nil)
	c.put(make([]byte, wire.RequestSize))
	if r, _ := c.answer(); r.Err != wire.OK {
		t.Errorf("what came before it: %v", r.Err)
	}
	c.gone()
	c = &client{t: t, c: dial(t, s)}
	c.get(18)
	c.put([]byte{0xff, 0, 0, 0})
	c.gone()
	c = &client{t: t, c: dial(t, s)} // and says nothing
	c.get(18)
	c.gone()
	c = connect(t, s, how{})
	c.put(wire.AppendRequest(nil, wire.Request{Command: wire.CmdWrite, Length: 1 << 20}))
	c.put(make([]byte, 1000))
	_ = c.c.Close()
	good.read(0, 512)
	want := Stats{Clients: 5, Slow: 1, BadHandshake: 1, BadRequests: 1, Lost: 1, Requests: 3}
	for end := time.Now().Add(testTimeout); s.Stats() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v, want %+v", s.Stats(), want)
		}
	}
}

func TestTooManyClients(t *testing.T) {
	s := serve(t, Config{Clients: 2}, newStore(t, 1<<20, 512))
	a, b := connect(t, s, how{}), connect(t, s, how{})
	(&client{t: t, c: dial(t, s)}).gone()
	a.read(0, 512)
	_ = b.c.Close()
	for s.Stats().Lost == 0 {
		time.Sleep(time.Millisecond)
	}
	connect(t, s, how{}).read(0, 512)
}

// TestPublish: new clients see the new exports, connected ones keep theirs.
func TestPublish(t *testing.T) {
	small, large := newStore(t, 1<<20, 512), newStore(t, 2<<20, 512)
	s := serve(t, Config{}, small, large)
	c := connect(t, s, how{export: "2"})
	if err := s.Publish(disks(large)); err != nil {
		t.Fatal(err)
	}
	c.read(1<<20, 512)
	if d := connect(t, s, how{export: "1"}); d.size != 2<<20 {
		t.Errorf("%d bytes", d.size)
	}
	e := &client{t: t, c: dial(t, s)}
	e.get(18)
	e.put([]byte{0, 0, 0, 3})
	e.option(wire.OptGo, []byte{0, 0, 0, 1, '2', 0, 0})
	if got := e.optionReply(); got != wire.RepErrUnknown {
		t.Errorf("GO: %#x", got)
	}
	if err := s.Publish(append(disks(small), disks(large)...)); err == nil || !strings.Contains(err.Error(), "two disks") {
		t.Errorf("two of a name: %v", err)
	}
}

// TestDefault: a client that names no disk always gets the same one, or none.
func TestDefault(t *testing.T) {
	small, large := newStore(t, 1<<20, 512), newStore(t, 2<<20, 512)
	both := disks(small, large)
	for named, want := range map[string]string{"": both[0].Name, both[1].Name: both[1].Name} {
		s := serve(t, Config{Default: named}, small, large)
		for _, now := range [][]Disk{both, both[:1], both[1:], nil, {both[1], both[0]}} {
			if err := s.Publish(now); err != nil {
				t.Fatal(err)
			}
			there := slices.ContainsFunc(now, func(d Disk) bool { return d.Name == want })
			if e := s.find(""); (e != nil) != there || there && e.disk.Name != want {
				t.Errorf("default %q of %+v: %+v, want %s if it is there", named, now, e, want)
			}
		}
	}
}

// TestAlias: a disk has two names, of which another disk's Name takes precedence over an Alias.
func TestAlias(t *testing.T) {
	two := disks(newStore(t, 1<<20, 512), newStore(t, 2<<20, 512))
	two[0].Alias = "2" // the name of the other
	two[1].Alias = "for-good"
	s := serve(t, Config{})
	if err := s.Publish(two); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uint64{"1": 1 << 20, "2": 2 << 20, "for-good": 2 << 20} {
		if d := connect(t, s, how{export: name}); d.size != size {
			t.Errorf("%s has %d bytes", name, d.size)
		}
	}
	two[1].Alias = ""
	if err := s.Publish(two); err != nil {
		t.Fatal(err)
	}
	if e := s.find("for-good"); e != nil {
		t.Errorf("a name that is gone leads to %+v", e.disk)
	}
}

// TestClose: requests that have begun are completed, answered and flushed; the socket is removed.
func TestClose(t *testing.T) {
	for name, p := range pollings {
		t.Run(name, func(t *testing.T) { testClose(t, Config{Polling: p}) })
	}
}

func testClose(t *testing.T, cfg Config) {
	store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
	s := serve(t, cfg, store)
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
	flush := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpFlush}})
	c := connect(t, s, how{})
	c.ask(wire.Request{Command: wire.CmdWrite, Length: 512}, random(512))
	for s.Stats().Requests == 0 {
		time.Sleep(time.Millisecond)
	}
	ended := make(chan error)
	go func() { ended <- s.Close() }()
	time.Sleep(10 * time.Millisecond)
	fault.Release()
	if r, _ := c.answer(); r.Err != wire.OK {
		t.Errorf("a write in flight: %v", r.Err)
	}
	c.gone()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if flush.Hits() == 0 {
		t.Error("no flush at the end")
	}
	if _, err := os.Lstat(s.cfg.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestSocket: a socket left behind is replaced; one in use, or another file, is not.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if _, err := Listen(Config{Socket: path}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a live socket: %v", err)
	}
	_ = l.Close()
	s, err := Listen(Config{Socket: path})
	if err != nil {
		t.Fatalf("a socket left behind: %v", err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Listen(Config{Socket: path}); err == nil {
		t.Error("a second server")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Socket: path}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("another file: %v", err)
	}
	if _, err := Listen(Config{Socket: filepath.Join(t.TempDir(), strings.Repeat("x", 120))}); err == nil {
		t.Error("a path that is too long")
	}
}

// lost is a store that cannot be used, or has no memory for it.
type lost struct{ backend.Store }

func (lost) NewQueue(int, func()) (backend.Queue, error) {
	return (*queue)(nil), errors.New("it is lost")
}

type queue struct{ backend.Queue }

// TestOpenFails: a client whose export cannot be opened gets the reason, and may choose another.
func TestOpenFails(t *testing.T) {
	good := newStore(t, 1<<20, 512)
	s := serve(t, Config{}, lost{newStore(t, 1<<20, 512)}, good)
	all := append(disks(lost{good}, good), Disk{Name: "3", Store: good, NewMemory: func(int) (Memory, error) {
		return (*shard.Slab)(nil), errors.New("there is none")
	}})
	if err := s.Publish(all); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, c: dial(t, s), lengths: map[wire.Cookie]int{}}
	c.get(18)
	c.put([]byte{0, 0, 0, 3})
	for name, want := range map[string]wire.OptionReply{"1": wire.RepErrShutdown, "3": wire.RepErrShutdown} {
		c.option(wire.OptGo, append([]byte{0, 0, 0, 1}, name+"\x00\x00"...))
		if got := c.optionReply(); got != want {
			t.Errorf("GO %s: %#x, want %#x", name, got, want)
		}
	}
	c.option(wire.OptGo, []byte{0, 0, 0, 1, '2', 0, 0})
	for c.optionReply() != wire.RepAck {
	}
	c.read(0, 512)
}

// TestCloseIdle: likewise for a client that has no requests at the time.
func TestCloseIdle(t *testing.T) {
	for name, p := range pollings {
		t.Run(name, func(t *testing.T) {
			store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
			flush := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpFlush}})
			s := serve(t, Config{Polling: p, Drain: testTimeout}, store)
			c := connect(t, s, how{})
			c.write(0, random(512))
			time.Sleep(5 * time.Millisecond) // the loop sleeps
			began := time.Now()
			if err := s.Close(); err != nil || time.Since(began) > testTimeout/2 {
				t.Errorf("%v, after %v", err, time.Since(began))
			}
			c.gone()
			if flush.Hits() == 0 {
				t.Error("no flush at the end")
			}
		})
	}
}

// TestSocketOfMany: of many servers that start on one socket path at the same time, where a socket was left behind,
// exactly one gets it, and keeps it.
func TestSocketOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 20 {
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		_ = left.Close()
		const many = 8
		var servers [many]*Server
		var wait sync.WaitGroup
		for i := range many {
			wait.Go(func() {
				s, err := Listen(Config{Socket: path})
				if err == nil {
					servers[i] = s
				} else if !strings.Contains(err.Error(), "is served by another process") {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		served := 0
		for _, s := range servers {
			if s == nil {
				continue
			}
			served++
			if _, err := os.Lstat(path); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if served != 1 {
			t.Fatalf("%d servers have the socket", served)
		}
	}
}
