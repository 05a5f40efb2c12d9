package target

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// bigLog requests a mebibyte of the discovery log.
func bigLog() *hostCommand {
	return adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogDiscovery, Length: 1 << 20}, bytes.Repeat([]byte{0xa5}, 1<<20))
}

// TestUndeliveredLogPages: discovery connections that request long log pages and accept none of the data use no
// buffers that hosts need, and a later connection gets its log. Data behind the end of a page is zero.
func TestUndeliveredLogPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Shards, c.Arena = 1, 64<<20 })
	f.export(newNullStore(4 << 20))
	_, id := f.connectAdmin(0)
	honest := f.connectIO(id, 1, 0)
	for range 4 {
		h := f.connectDiscovery("nqn.2026-11.io.example:stranger")
		h.call(func() { h.holdAck = true })
		for range 30 {
			c := h.start(bigLog())
			if r := <-c.response; !r.status.OK() {
				t.Fatalf("log page: %v", r.status)
			}
			if page := c.memory[capsule.DiscoveryHeaderSize+capsule.DiscoveryEntrySize:]; !bytes.Equal(page, make([]byte, len(page))) {
				t.Fatal("not zeroes behind the page")
			}
		}
	}
	honest.call(func() {
		if a := honest.q.shard.Arena(); a.Free() != len(a.Bytes()) {
			t.Errorf("%d of %d bytes of the hosts' buffers are free", a.Free(), len(a.Bytes()))
		}
	})
	var large []*hostCommand
	for range 20 {
		large = append(large, honest.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 2048}, make([]byte, 1<<20))))
	}
	for _, c := range large {
		if r := <-c.response; !r.status.OK() {
			t.Errorf("a host's write: %v", r.status)
		}
	}
	f.connectDiscovery(testHostNQN).wantOK(bigLog())
}

// connectHost connects another host, with an entry of its own, and one I/O queue on the first shard.
func (f *fixture) connectHost(nqn string, entries int) *hostQueue {
	f.t.Helper()
	f.sub.AllowHost(nvmeof.NQN(nqn))
	d := connectData()
	d.HostNQN, d.HostID = nqnField(nqn), capsule.HostID{9, byte(len(f.sub.controllers)), byte(len(f.sub.controllers) >> 8)}
	admin := f.dial(0, 0, 32)
	r := admin.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	admin.setCC(linuxCC)
	admin.setCC(linuxCC.WithEnable(true))
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := f.dial(1, 0, entries)
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: uint16(entries - 1)}, d))
	return io
}

// TestUndeliveredReads: a host that accepts none of the data that it reads uses at most half of the buffers, and
// others continue.
func TestUndeliveredReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Shards, c.Arena = 1, 64<<20 })
	f.export(newNullStore(4 << 20))
	hoarder := f.connectHost("nqn.2026-11.io.example:hoarder", 128)
	hoarder.call(func() { hoarder.holdAck = true })
	read := func() *hostCommand {
		return ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 2048}, make([]byte, 1<<20))
	}
	for range 100 {
		hoarder.start(read())
	}
	honest := f.connectHost(testHostNQN, 128)
	var cs []*hostCommand
	for range 40 {
		cs = append(cs, honest.start(read()))
	}
	for _, c := range cs {
		if r := <-c.response; !r.status.OK() {
			t.Errorf("a read of another host: %v", r.status)
		}
	}
	honest.turns(2)
	honest.call(func() {
		if a := honest.q.shard.Arena(); a.Free() < len(a.Bytes())/2 {
			t.Errorf("%d of %d bytes of buffers are left", a.Free(), len(a.Bytes()))
		}
	})
	hoarder.lose()
	honest.call(func() {
		if n := len(honest.q.worker.parties); n != 3 { // two hosts and their address
			t.Errorf("%d parties", n)
		}
	})
}

// TestHostsHaveEqualRates: hosts that want more than there is get equal shares of buffers, and of room at a store,
// however many commands they have outstanding.
func TestHostsHaveEqualRates(t *testing.T) {
	for _, c := range []struct {
		name   string
		hosts  int
		arena  int
		depth  int // of the store
		blocks uint32
	}{
		{"buffers", 2, 2 << 20, 256, 256},
		{"buffers", 16, 4 << 20, 256, 256},
		{"store", 2, 16 << 20, 8, 1},
		{"store", 16, 16 << 20, 16, 1},
		{"store", 64, 64 << 20, 32, 1},
	} {
		t.Run(fmt.Sprintf("%s of %d hosts", c.name, c.hosts), func(t *testing.T) {
			f := newFixture(t, func(cfg *Config) { cfg.Shards, cfg.Arena, cfg.BackendDepth = 1, c.arena, c.depth })
			s := newFakeStore(4 << 20)
			f.export(s)
			var loads []*hostLoad
			for i := range c.hosts {
				entries := []int{128, 32, 64, 96}[i%4]
				q := f.connectHost(fmt.Sprintf("nqn.2026-11.io.example:host%d", i), entries)
				loads = append(loads, newHostLoad(q, entries, c.blocks))
			}
			s.set(true, nil)
			for _, l := range loads {
				l.q.call(l.fill)
			}
			const turns = 200
			for range turns {
				s.step()
				loads[0].q.call(func() {})
			}
			sum, squares := 0.0, 0.0
			loads[0].q.call(func() {
				for _, l := range loads {
					sum += float64(l.n)
					squares += float64(l.n) * float64(l.n)
				}
			})
			if j := sum * sum / squares / float64(len(loads)); j < 0.98 {
				t.Errorf("fairness %.3f", j)
			}
			loads[0].q.call(func() {
				for _, l := range loads {
					l.left = true
				}
			})
			s.set(false, nil)
			for _, l := range loads {
				l.q.call(func() {})
			}
		})
	}
}

// A hostLoad keeps a number of reads outstanding in a queue, and counts those that complete. It belongs to the
// queue's shard.
type hostLoad struct {
	q     *hostQueue
	links []loadLink
	n     int
	left  bool
}

type loadLink struct {
	quietLink
	l   *hostLoad
	sqe capsule.Command
	i   int
}

func newHostLoad(q *hostQueue, outstanding int, blocks uint32) *hostLoad {
	l := &hostLoad{q: q, links: make([]loadLink, outstanding)}
	q.identify(2)
	for i := range l.links {
		c := ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: blocks}, nil)
		c.sqe.Flags |= capsule.FlagsSGL
		l.links[i] = loadLink{quietLink: quietLink{data: make([]byte, blocks*512)}, l: l, sqe: c.sqe, i: i}
	}
	return l
}

func (l *hostLoad) fill() {
	for i := range l.links {
		l.links[i].start()
	}
}

func (k *loadLink) start() { k.l.q.q.take(k, &k.sqe, k.i) }

func (k *loadLink) Respond(s capsule.Status, _ uint64) {
	k.l.n++
	k.l.q.q.shard.Do(func() { // its acknowledgement
		k.l.q.q.finished(k.i)
		if !k.l.left {
			k.start()
		}
	})
}

func (k *loadLink) RespondData(_ []rdmatransport.SGE, result uint64) {
	k.Respond(capsule.StatusSuccess, result)
}

// TestLogGrowsMeanwhile: a discovery log that becomes longer while the command waits for a buffer is sent as a
// whole.
func TestLogGrowsMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	h := f.connectDiscovery(testHostNQN)
	var all []shard.Buffer
	h.call(func() {
		for b, ok := h.q.worker.public.Alloc(shard.MaxBuffer); ok; b, ok = h.q.worker.public.Alloc(shard.MaxBuffer) {
			all = append(all, b)
		}
	})
	c := h.start(bigLog())
	c.wantPending()
	for i := range 20 {
		s, err := f.target.AddSubsystem(SubsystemConfig{NQN: nvmeof.NQN(fmt.Sprintf("%s%d", testSubNQN, i))})
		if err != nil {
			t.Fatal(err)
		}
		s.AllowHost(testHostNQN)
	}
	c.wantPending()
	h.call(func() {
		for _, b := range all {
			b.Release()
		}
	})
	if r := <-c.response; !r.status.OK() {
		t.Fatal(r.status)
	}
	const records = 1 + 1 + 20
	head, err := capsule.DecodeDiscoveryHeader(c.memory)
	if err != nil || head.NUMREC != records {
		t.Fatalf("%+v, %v", head, err)
	}
	for i := 1; i <= records; i++ {
		e, err := capsule.DecodeDiscoveryEntry(c.memory[i*capsule.DiscoveryEntrySize:])
		if err != nil || e.SubNQN.Check() != nil {
			t.Errorf("entry %d: %v, %v", i, e.SubNQN, err)
		}
	}
	if rest := c.memory[(records+1)*capsule.DiscoveryEntrySize:]; !bytes.Equal(rest, make([]byte, len(rest))) {
		t.Error("not zeroes behind the page")
	}
}

// TestOneCommandBesideMany: a host with one command at a time, beside one that keeps 128 outstanding at a store
// with room for 8, gets at least a third of the rate that it has alone: one turn of the store to be accepted, one
// to be served.
func TestOneCommandBesideMany(t *testing.T) {
	for _, c := range []struct {
		name         string
		arena, depth int
		blocks       uint32
	}{
		{"buffers", 1 << 20, 256, 256},
		{"store", 16 << 20, 8, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			rate := func(beside int) int {
				f := newFixture(t, func(cfg *Config) { cfg.Shards, cfg.Arena, cfg.BackendDepth = 1, c.arena, c.depth })
				s := newFakeStore(4 << 20)
				f.export(s)
				s.set(true, nil)
				one := newHostLoad(f.connectHost("nqn.2026-11.io.example:one", 2), 1, c.blocks)
				many := newHostLoad(f.connectHost("nqn.2026-11.io.example:many", 128), beside, c.blocks)
				many.q.call(many.fill)
				one.q.call(one.fill)
				for range 300 {
					s.step()
					one.q.turns(3)
				}
				one.q.call(func() { one.left, many.left = true, true })
				s.set(false, nil)
				one.q.turns(10)
				return one.n
			}
			alone, crowded := rate(0), rate(128)
			if 3*crowded < alone {
				t.Errorf("%d commands alone, %d beside another host", alone, crowded)
			}
		})
	}
}
