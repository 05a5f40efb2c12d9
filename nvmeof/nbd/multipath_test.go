package nbd

import (
	"bytes"
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

const multipathNQN = "nqn.2014-08.org.example:disk"

// paths has targets with one store, and a namespace over all of them.
type paths struct {
	targets   []*target.Subsystem
	subsystem *multipath.Subsystem
	namespace *multipath.Namespace
}

func newPaths(t *testing.T, count int) *paths {
	t.Helper()
	loopback, store := rdmatest.NewLoopback(), newStore(t, 64<<20, 4096)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(last byte) rdmatransport.Device {
		d, err := loopback.Open(netip.AddrFrom4([4]byte{192, 0, 2, last}), rdmatest.Attrs())
		ok(err)
		t.Cleanup(func() { ok(d.Close()) })
		return d
	}
	t.Cleanup(func() { ok(store.Close()) })
	h, err := host.New(host.Config{Device: open(1), Shards: 1, Polling: nvmeof.PollNever})
	ok(err)
	p := &paths{}
	cfg := multipath.Config{NQN: multipathNQN, Policy: multipath.RoundRobin}
	for i := range count {
		d := open(byte(2 + i))
		tg, err := target.New(target.Config{Device: d, Polling: nvmeof.PollNever, Arena: 8 << 20})
		ok(err)
		t.Cleanup(func() { ok(tg.Close()) })
		sub, err := tg.AddSubsystem(target.SubsystemConfig{NQN: multipathNQN})
		ok(err)
		sub.AllowAnyHost(true)
		_, err = sub.AddNamespace(target.NamespaceConfig{Store: store, UUID: uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01")})
		ok(err)
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i)}), 4420)
		_, err = tg.Listen(at)
		ok(err)
		p.targets = append(p.targets, sub)
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{
			Host: h, Options: host.Options{Traddr: at.Addr(), Trsvcid: at.Port(), KeepAliveTmo: time.Minute, NrIOQueues: 1},
			Timers: multipath.Timers{ReconnectDelay: 100 * time.Millisecond, ReplayDelay: 50 * time.Millisecond},
		})
	}
	t.Cleanup(func() { ok(h.Close()) }) // first of all
	p.subsystem, err = multipath.Connect(context.Background(), cfg)
	ok(err)
	t.Cleanup(func() { ok(p.subsystem.Close()) })
	p.namespace, err = p.subsystem.Namespace(context.Background(), 1)
	ok(err)
	return p
}

// TestMultipath: clients of a disk over several paths do not notice that paths end.
func TestMultipath(t *testing.T) {
	for name, polling := range pollings {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for paths that come back
			p := newPaths(t, 2)
			s := serve(t, Config{Polling: polling}, p.namespace)
			c := connect(t, s, how{structured: true, blockSize: true})
			data := random(4 << 20)
			c.write(0, data)
			for round := range 4 {
				for i := range 128 {
					c.ask(wire.Request{Command: wire.CmdRead, Offset: uint64(i) * 8192, Length: 8192}, nil)
					c.ask(wire.Request{Command: wire.CmdWrite, Offset: uint64(i) * 8192, Length: 8192}, data[i*8192:][:8192])
					if i == 64 {
						p.targets[round%2].AllowAnyHost(false) // ends its controller
					}
				}
				for range 256 {
					if r, _ := c.answer(); r.Err != wire.OK {
						t.Fatalf("round %d: %v", round, r.Err)
					}
				}
				p.targets[round%2].AllowAnyHost(true)
				for p.subsystem.Paths()[round%2].Status().State != multipath.StateLive {
					time.Sleep(time.Millisecond)
				}
			}
			if got := c.read(0, len(data)); !bytes.Equal(got, data) {
				t.Error("something else is read back")
			}
			if n := p.subsystem.Paths()[0].Status().Reconnects; n == 0 {
				t.Error("the path was not lost")
			}
		})
	}
}

// TestRemovedNamespace: a removed namespace returns errors, and its disk can be removed.
func TestRemovedNamespace(t *testing.T) {
	p := newPaths(t, 2)
	s := serve(t, Config{}, p.namespace)
	c := connect(t, s, how{})
	c.write(0, random(4096))
	for _, sub := range p.targets {
		if err := sub.RemoveNamespace(1); err != nil {
			t.Fatal(err)
		}
	}
	c.do(wire.Request{Command: wire.CmdRead, Length: 4096}, nil, wire.EIO)
	c.do(wire.Request{Command: wire.CmdWrite, Length: 4096}, random(4096), wire.EIO)
	if !p.namespace.Removed() {
		t.Error("it is not known to be removed")
	}
	if err := s.Publish(nil); err != nil {
		t.Error(err)
	}
	if s.find("") != nil {
		t.Error("it is still published")
	}
}

// A resized store has a settable part of another one.
type resized struct {
	backend.Store
	size atomic.Int64
}

func (r *resized) Info() backend.Info {
	info := r.Store.Info()
	info.Size = r.size.Load()
	return info
}

// TestResized: clients that connect later get the new size, and connected ones may use it.
func TestResized(t *testing.T) {
	r := &resized{Store: newStore(t, 8<<20, 4096)}
	r.size.Store(4 << 20)
	s := serve(t, Config{}, r)
	before := connect(t, s, how{})
	before.do(wire.Request{Command: wire.CmdRead, Offset: 6 << 20, Length: 4096}, nil, wire.EINVAL)
	r.size.Store(8 << 20)
	if after := connect(t, s, how{}); before.size != 4<<20 || after.size != 8<<20 {
		t.Errorf("%d bytes before, %d after", before.size, after.size)
	} else {
		after.read(6<<20, 4096)
	}
	data := random(4096)
	before.write(6<<20, data)
	if got := before.read(6<<20, 4096); !bytes.Equal(got, data) {
		t.Error("something else is read back from what was added")
	}
	before.do(wire.Request{Command: wire.CmdWrite, Offset: 8<<20 - 512, Length: 4096}, random(4096), wire.ENOSPC)
	before.do(wire.Request{Command: wire.CmdRead, Offset: 8 << 20, Length: 4096}, nil, wire.EINVAL)
}
