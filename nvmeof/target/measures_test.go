package target

import (
	"maps"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestMeasures: commands are counted in the shards of their queues, and the counters added up.
func TestMeasures(t *testing.T) {
	r := newRemote(t, overLoopback)
	if _, err := r.sub.AddNamespace(NamespaceConfig{Store: newNullStore(1 << 20)}); err != nil {
		t.Fatal(err)
	}
	_, io := r.controller(2)
	do := func(q *remoteQueue, nsid capsule.NSID, op capsule.IOOpcode, blocks uint32, length int, want capsule.Status) {
		t.Helper()
		cmd := rwCommand(op, 0, blocks)
		cmd.NSID = nsid
		if req := <-q.start(cmd, 0, length); req.Err != nil || req.Completion.Status.Code() != want {
			t.Fatalf("opcode %#x: %v, %v, want %v", op, req.Completion.Status, req.Err, want)
		}
	}
	for i, q := range io {
		for range 3 + i {
			do(q, 1, capsule.IORead, 1, 4096, capsule.StatusSuccess)
			do(q, 2, capsule.IOWrite, 16, 8192, capsule.StatusSuccess)
		}
		do(q, 1, capsule.IOFlush, 0, 0, capsule.StatusSuccess)
		do(q, 1, capsule.IORead, 1<<16, 0, capsule.StatusLBAOutOfRange)
	}
	m := r.target.Measure()
	if len(m.Subsystems) != 1 || len(m.Subsystems[0].Namespaces) != 2 || len(m.Shards) == 0 {
		t.Fatalf("%+v", m)
	}
	if s := m.Subsystems[0]; s.NQN != r.sub.NQN() || s.Model != "nvmeof" || len(s.Serial) != 20 || s.AnyHost || s.Hosts != 1 {
		t.Errorf("subsystem %+v", s)
	}
	for i, want := range []struct {
		kinds                   map[string]uint64
		store, read, written, e uint64
	}{
		{map[string]uint64{"read": 9, "flush": 2}, 0, 7 * 4096, 0, 2},
		{map[string]uint64{"write": 7}, 7, 0, 7 * 8192, 0},
	} {
		n := &m.Subsystems[0].Namespaces[i]
		if !n.Ready || n.Kind != []string{"memory", "target"}[i] || n.Size == 0 || n.Group != 1 {
			t.Errorf("namespace %+v", n)
		}
		kinds, store := map[string]uint64{}, uint64(0)
		for name, k := range n.Kinds() {
			kinds[name] = k.Command.Count()
			store += k.Store.Count()
			if k.Command.Sum() <= 0 || k.Store.Sum() > k.Command.Sum() {
				t.Errorf("namespace %d: %s took %v, of which the store %v", n.NSID, name, k.Command.Sum(), k.Store.Sum())
			}
		}
		read, written := n.Bytes()
		errors := map[capsule.Status]uint64{}
		maps.Insert(errors, n.Errors())
		if int(n.NSID) != i+1 || n.InFlight() != 0 || !maps.Equal(kinds, want.kinds) || store != want.store ||
			read != want.read || written != want.written || errors[capsule.StatusLBAOutOfRange] != want.e {
			t.Errorf("namespace %d: in flight %d, kinds %v, by the store %d, read %d, written %d, errors %v; want %+v",
				n.NSID, n.InFlight(), kinds, store, read, written, errors, want)
		}
	}
	checkShards(t, m.Shards, 7)
	r.close()
}

// checkShards checks the number of transfers in each direction.
func checkShards(t *testing.T, shards []ShardMeasures, want uint64) {
	t.Helper()
	var from, to uint64
	for i, s := range shards {
		if s.Shard != i || s.Busy <= 0 || s.Turns.Count() == 0 || s.Turns.Sum() != s.Busy {
			t.Errorf("shard %d: busy %v in %d turns of %v", s.Shard, s.Busy, s.Turns.Count(), s.Turns.Sum())
		}
		from, to = from+s.FromHosts.Count(), to+s.ToHosts.Count()
	}
	if from != want || to != want {
		t.Errorf("%d transfers from hosts, %d to them, want %d", from, to, want)
	}
}

// TestRefusalsAreMeasured: a command that a reservation excludes counts for its namespace, one that reaches no
// namespace for the subsystem; neither counts as an admin command.
func TestRefusalsAreMeasured(t *testing.T) {
	f := newFixture(t)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	a.register(capsule.StatusSuccess, 1)
	a.acquire(capsule.StatusSuccess, 1, capsule.ReservationExclusiveAccess)
	for range 3 {
		b.io.wantStatus(conflict, ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
	}
	b.io.wantStatus(capsule.StatusInvalidNamespace|dnr, ioCommand(capsule.IORead, 9, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
	b.io.turns(2)
	m := f.target.Measure()
	s := &m.Subsystems[0]
	n, stray := map[capsule.Status]uint64{}, map[capsule.Status]uint64{}
	maps.Insert(n, s.Namespaces[0].Errors())
	maps.Insert(stray, s.Errors())
	if n[capsule.StatusReservationConflict] != 3 || len(n) != 1 || stray[capsule.StatusInvalidNamespace] != 1 || len(stray) != 1 {
		t.Errorf("errors %v of the namespace, %v of none", n, stray)
	}
	if read, _ := s.Namespaces[0].Bytes(); read != 0 || s.Namespaces[0].InFlight() != 0 {
		t.Errorf("%d bytes read, %d in flight", read, s.Namespaces[0].InFlight())
	}
	for c, k := range m.Causes {
		if c.Kind == CauseAdmin && c.Cause == "unknown" {
			t.Errorf("%d of %+v", k, c)
		}
	}
}
