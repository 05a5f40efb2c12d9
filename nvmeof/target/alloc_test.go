package target

import (
	"runtime"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestNoAllocationPerCommand counts the allocations on the whole path of a command: host queue, provider, target
// queue, execution.
func TestNoAllocationPerCommand(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newRemote(t, overLoopback)
	if _, err := r.sub.AddNamespace(NamespaceConfig{Store: newNullStore(1 << 20)}); err != nil {
		t.Fatal(err)
	}
	_, io := r.controller(1)
	for _, c := range []struct {
		name string
		op   capsule.IOOpcode
		nsid capsule.NSID
		n    int
	}{
		{"read from leased memory", capsule.IORead, 1, 4096},
		{"read through a backend", capsule.IORead, 2, 4096},
		{"write in the capsule", capsule.IOWrite, 1, 4096},
		{"write fetched", capsule.IOWrite, 1, 8192},
		{"write fetched, through a backend", capsule.IOWrite, 2, 8192},
	} {
		l := newLoad(io[0], c.op, c.nsid, c.n)
		l.run(500)
		var before, after runtime.MemStats
		const commands = 4000
		runtime.ReadMemStats(&before)
		l.run(commands)
		runtime.ReadMemStats(&after)
		// The rest is due to the test's own call and the runtime.
		if n := float64(after.Mallocs-before.Mallocs) / commands; n > 0.02 {
			t.Errorf("%s: %.3f allocations per command", c.name, n)
		}
	}
	r.close()
}

// A load keeps 16 commands in flight.
type load struct {
	q    *remoteQueue
	reqs [16]fabric.Request
	left int // belongs to the shard
	busy int // belongs to the shard
	done chan error
	err  error
}

func newLoad(q *remoteQueue, op capsule.IOOpcode, nsid capsule.NSID, n int) *load {
	l := &load{q: q, done: make(chan error, 1)}
	block := 4096
	if nsid == 2 {
		block = 512
	}
	cmd := rwCommand(op, 0, uint32(n/block))
	cmd.NSID = nsid
	for i := range l.reqs {
		l.reqs[i] = fabric.Request{Command: cmd, Memory: q.r.memory, Offset: i * n, Length: n, Done: l.completed}
	}
	return l
}

func (l *load) run(n int) {
	l.q.r.t.Helper()
	l.q.r.call(func() {
		l.left, l.busy = n, len(l.reqs)
		for i := range l.reqs {
			l.next(&l.reqs[i])
		}
	})
	if err := <-l.done; err != nil {
		l.q.r.t.Fatal(err)
	}
}

func (l *load) next(r *fabric.Request) {
	if l.left > 0 && l.err == nil {
		l.left--
		if l.err = l.q.hq.Submit(r); l.err == nil {
			return
		}
	}
	if l.busy--; l.busy == 0 {
		l.done <- l.err
	}
}

func (l *load) completed(r *fabric.Request) {
	if r.Err != nil {
		l.err = r.Err
	} else if !r.Completion.Status.OK() {
		l.q.r.t.Errorf("%v", r.Completion.Status)
	}
	l.next(r)
}
