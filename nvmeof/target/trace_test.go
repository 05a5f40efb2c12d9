package target

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestTrace: commands of all queues are recorded, with their status and times, while a trace is active.
func TestTrace(t *testing.T) {
	r := newRemote(t, overLoopback)
	if _, err := r.sub.AddNamespace(NamespaceConfig{Store: newNullStore(1 << 20)}); err != nil {
		t.Fatal(err)
	}
	trace := startTrace(t, r.target, TraceFilter{})
	if _, err := NewTrace(r.target, TraceFilter{}); !errors.Is(err, ErrTracing) {
		t.Errorf("a second trace: %v", err)
	}
	_, io := r.controller(1)
	issue := func(nsid capsule.NSID, op capsule.IOOpcode, blocks uint32, length int) {
		t.Helper()
		cmd := rwCommand(op, 3, blocks)
		cmd.NSID = nsid
		if req := <-io[0].start(cmd, 0, length); req.Err != nil {
			t.Fatal(req.Err)
		}
	}
	issue(1, capsule.IORead, 2, 8192)
	issue(2, capsule.IOWrite, 16, 8192)
	issue(2, capsule.IOFlush, 0, 0)
	issue(1, capsule.IORead, 1<<16, 0)
	ofAdmin := func(c TracedCommand) bool { return c.Queue == 0 || c.Command.Opcode == capsule.OpcodeFabrics }
	all := traced(t, trace, func(all []TracedCommand) bool {
		return len(slices.DeleteFunc(slices.Clone(all), ofAdmin)) == 4
	})
	if all[0].Command.Opcode != capsule.OpcodeFabrics || all[0].Command.FabricsType() != capsule.FabricsConnect || all[0].Queue != 0 {
		t.Errorf("the first command is %+v", all[0])
	}
	all = slices.DeleteFunc(all, ofAdmin)
	want := []struct {
		op             capsule.IOOpcode
		ok, fabric, st bool // it succeeded, transferred data, was submitted to the store
	}{{capsule.IORead, true, true, false}, {capsule.IOWrite, true, true, true}, {capsule.IOFlush, true, false, false}, {capsule.IORead, false, false, false}}
	if len(all) != len(want) {
		t.Fatalf("%d I/O commands: %+v", len(all), all)
	}
	for i, w := range want {
		c := all[i]
		if capsule.IOOpcode(c.Command.Opcode) != w.op || c.Status.OK() != w.ok || c.Fabric > 0 != w.fabric || c.Storage >= 0 != w.st ||
			c.Latency <= 0 || c.Latency < c.Fabric+max(0, c.Storage) || c.Host == "" || c.Subsystem != r.sub.NQN() || c.Queue != 1 || time.Since(c.Time) > time.Minute {
			t.Errorf("command %d: %+v, want %+v", i, c, w)
		}
	}
	if conns := Connections(r.target); len(conns) != 2 || conns[0].QPN == conns[1].QPN || conns[0].QPN == 0 || conns[1].Host != all[0].Host {
		t.Errorf("connections %+v", conns)
	}
	trace.Close()
	if got, _ := trace.Read(); got != nil || r.target.devices[0].workers[0].tracing != nil {
		t.Error("it goes on after its end")
	}
	r.close()
}

func startTrace(t *testing.T, target *Target, f TraceFilter) *Trace {
	t.Helper()
	trace, err := NewTrace(target, f)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// traced reads until there is enough. Commands that the host has seen complete are recorded soon.
func traced(t *testing.T, trace *Trace, enough func([]TracedCommand) bool) (all []TracedCommand) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !enough(all); {
		got, dropped := trace.Read()
		all = append(all, got...)
		if dropped != 0 || time.Now().After(deadline) {
			t.Fatalf("%d commands, %d lost: %+v", len(all), dropped, all)
		}
	}
	return all
}

// TestTraceFilter: commands that do not match are omitted, and those without room are counted.
func TestTraceFilter(t *testing.T) {
	r := &request{queue: &queue{id: 1, controller: &Controller{hostNQN: "nqn.h", subsystem: &Subsystem{nqn: "nqn.s"}}},
		io: &ioRow{}, cmd: &capsule.Command{NSID: 7}, measured: measured{arrived: 100}}
	for _, c := range []struct {
		filter TraceFilter
		want   bool
	}{
		{TraceFilter{}, true}, {TraceFilter{Host: "nqn.h", Subsystem: "nqn.s", NSID: 7, SlowerThan: 50}, true}, {TraceFilter{Host: "nqn.x"}, false},
		{TraceFilter{Subsystem: "nqn.x"}, false}, {TraceFilter{NSID: 8}, false}, {TraceFilter{SlowerThan: 51}, false},
	} {
		tr := &tracing{filter: c.filter, records: make([]TracedCommand, 0, 1)}
		for range 2 {
			tr.add(r, capsule.StatusSuccess)
		}
		tr.next(150)
		if got := tr.take(make([]TracedCommand, 0, 1)); len(got) == 1 != c.want || c.want && (got[0].Latency != 50 || tr.dropped != 1) {
			t.Errorf("%+v: %+v, %d lost", c.filter, got, tr.dropped)
		}
	}
	r.queue.id, r.io, r.cmd.Opcode = 0, nil, capsule.Opcode(capsule.AdminAsyncEvent)
	tr := &tracing{filter: TraceFilter{SlowerThan: 1}, records: make([]TracedCommand, 0, 1)}
	if tr.add(r, capsule.StatusSuccess) != nil {
		t.Error("an Asynchronous Event Request is slow")
	}
	if n := testing.AllocsPerRun(100, func() { tr.records = tr.records[:0]; r.queue.id = 1; tr.add(r, 0); tr.next(5) }); n != 0 {
		t.Errorf("%v allocations for a command", n)
	}
}

// BenchmarkTrace measures the cost of a command's completion, with and without an active trace.
func BenchmarkTrace(b *testing.B) {
	for name, traced := range map[string]*tracing{"off": nil, "on": {records: make([]TracedCommand, 0, tracedRecords)}} {
		b.Run(name, func(b *testing.B) {
			w := &worker{tracing: traced}
			r := &request{queue: &queue{id: 1, worker: w, controller: &Controller{hostNQN: "nqn.h", subsystem: &Subsystem{nqn: "nqn.s"}}},
				io: &ioRow{}, cmd: &capsule.Command{NSID: 7}}
			spare := make([]TracedCommand, 0, tracedRecords)
			for i := range b.N {
				r.answered(capsule.StatusSuccess)
				if traced != nil && i%32 == 31 {
					traced.next(int64(i))
				}
				if traced != nil && i%2048 == 2047 {
					spare = traced.take(spare)
				}
			}
		})
	}
}
