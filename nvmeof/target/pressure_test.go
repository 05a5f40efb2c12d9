package target

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestManyHostsOfLargeWrites is row 113: a hundred hosts write 1 MiB at a time, one of them with 128 commands
// outstanding throughout, with buffers for only a few. Memory use does not grow, every command succeeds, and the
// host with many outstanding commands does not starve others: a write only waits for those that arrived before it.
func TestManyHostsOfLargeWrites(t *testing.T) {
	const hosts, outstanding, arena = 100, 128, 4 << 20
	f := newFixture(t, func(c *Config) { c.Shards, c.Arena, c.MaxQueues = 1, arena, 1 })
	f.export(newNullStore(4 << 20))
	data := make([]byte, 1<<20)
	large := func() *hostCommand {
		return ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 2048}, data)
	}
	var queues []*hostQueue
	for range hosts {
		_, id := f.connectAdmin(0)
		queues = append(queues, f.connectIO(id, 1, 0))
	}
	greedy, others := queues[0], queues[1:]
	ended, stop := make(chan *hostCommand, outstanding), make(chan struct{})
	follow := func(c *hostCommand) { // adds its response to the common channel
		if r := <-c.response; !r.status.OK() {
			t.Errorf("a write of the greedy host: %v", r.status)
		}
		ended <- c
	}
	for range outstanding {
		go follow(greedy.start(large()))
	}
	total := make(chan int)
	go func() { // keeps 128 outstanding until the others are done
		n := 0
		for left := outstanding; left > 0; n++ {
			<-ended
			select {
			case <-stop:
				left--
			default:
				go follow(greedy.start(large()))
			}
		}
		total <- n
	}()
	for _, q := range others {
		a, b := q.start(large()), q.start(large())
		for _, c := range []*hostCommand{a, b} {
			if r := <-c.response; !r.status.OK() {
				t.Errorf("a write of another host: %v", r.status)
			}
		}
	}
	close(stop)
	if n, most := <-total, (hosts+1)*2*outstanding; n > most {
		t.Errorf("the greedy host did %d writes while %d others did two each, want at most %d", n, hosts-1, most)
	}
	greedy.call(func() {
		if a := greedy.q.shard.Arena(); a.Free() != arena || len(a.Bytes()) != arena {
			t.Errorf("%d of %d bytes of buffers are free, want all %d", a.Free(), len(a.Bytes()), arena)
		}
	})
}

// TestLinesAreLimited is row 114 for the log: whatever a peer repeats, it cannot fill a disk, and suppressed lines
// are counted.
func TestLinesAreLimited(t *testing.T) {
	const times = 300
	for _, c := range []struct {
		name, line string
		most       int
		prepare    func(f *fixture) (again func())
	}{
		{"requests that are refused", "connection rejected", peerlog.Troubles, func(f *fixture) func() {
			f.listen("192.0.2.1:4420")
			return func() {
				r := &fakeRequest{private: make([]byte, 56), depth: 16, reject: make(chan []byte, 1)}
				capsule.RequestData{RECFMT: 9, HRQSIZE: 32, HSQSIZE: 31}.Encode(r.private)
				f.device.listener.requests <- r
				<-r.reject
			}
		}},
		{"a stranger's CC", "controller not enabled: the host's configuration (CC) is not supported", peerlog.Troubles, func(f *fixture) func() {
			h := f.connectDiscovery(otherHostNQN)
			return func() {
				h.setCC(0)
				h.setCC(linuxCC.WithMPS(1).WithEnable(true))
			}
		}},
		{"hosts that come", "host connected", peerlog.Comings, comeAndGo},
		{"hosts that go", "association ended", peerlog.Comings, comeAndGo},
		{"queues that are lost", "queue lost", peerlog.Troubles, func(f *fixture) func() {
			return func() { h, _ := f.connectAdmin(0); h.lose() }
		}},
		{"a host that authenticates again and again", "host authenticated", peerlog.Comings, func(f *fixture) func() {
			k := &keyed{f, newKey(t), newKey(t), 0}
			k.allow(k.key, k.ctrlKey)
			h, _ := k.connect(0, capsule.ControllerIDDynamic)
			return func() {
				h.authenticate(k.exchange(func(c *auth.HostConfig) { c.Groups = []auth.Group{auth.GroupNull} }))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // all within a second of its clock
				f := newFixture(t)
				again := c.prepare(f)
				for range times {
					again()
				}
				if n := f.logged(c.line); n == 0 || n > c.most {
					t.Errorf("%d lines, want at most %d", n, c.most)
				}
				time.Sleep(time.Second)
				f.logs.TakeAll()
				again()
				synctest.Wait()
				lines := f.logs.FilterFieldKey("similar_lines_suppressed").All()
				if len(lines) == 0 {
					t.Error("what was left out is not counted")
				}
				f.close2(t)
			})
		})
	}
}

// comeAndGo connects a host that disconnects in order.
func comeAndGo(f *fixture) (again func()) {
	return func() {
		h, _ := f.connectAdmin(0)
		h.fail(rdmatransport.ErrDisconnected)
		<-h.closed
	}
}

// A fullDisk accepts no lines.
type fullDisk struct{ tried atomic.Int32 }

func (d *fullDisk) Write([]byte) (int, error) { d.tried.Add(1); return 0, syscall.ENOSPC }
func (d *fullDisk) Sync() error               { return syscall.ENOSPC }

// TestDiskOfTheLogIsFull is row 116: nothing depends on a line that cannot be written.
func TestDiskOfTheLogIsFull(t *testing.T) {
	d := &fullDisk{}
	f := newFixture(t, func(c *Config) {
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(d)), zapcore.DebugLevel)
		c.Log = zap.New(core, zap.ErrorOutput(zapcore.AddSync(&fullDisk{})))
	})
	s := newFakeStore(1 << 20)
	f.export(s)
	bad := connectData()
	bad.HostNQN = nqnField(otherHostNQN)
	f.dial(0, 0, 32).wantStatus(capsule.StatusConnectInvalidHost|dnr, connectCommand(capsule.Connect{SQSIZE: 31}, bad))
	admin, io := f.both()
	io.wantOK(writeOf(2))
	s.set(false, errors.New("input/output error"))
	io.wantStatus(capsule.StatusWriteFault, writeOf(2))
	s.set(false, nil)
	io.lose()
	admin.lose()
	_, io = f.both()
	io.wantOK(readOf(2))
	if d.tried.Load() == 0 {
		t.Error("nothing was logged")
	}
}
