package meter

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestNamespace(t *testing.T) {
	var turn Turn
	var one, two, sum Namespace
	us := int64(time.Microsecond)
	turn.Answers = append(turn.Answers, Answer{&one, 10 * us, -1, Read}, Answer{&two, 20 * us, 5 * us, Read}, Answer{&two, 30 * us, 7 * us, Flush})
	turn.Next(100 * us)
	turn.Next(200 * us) // there is nothing left
	one.Read, two.Written = 4096, 512
	one.Fail(capsule.StatusInternalError | capsule.StatusDNR)
	two.Fail(capsule.StatusInternalError)
	two.Fail(capsule.StatusLBAOutOfRange)
	sum.Add(&one)
	sum.Add(&two)

	command, store := sum.Times(Read)
	if command.Count() != 2 || command.Sum() != 170*time.Microsecond || store.Count() != 1 || store.Sum() != 5*time.Microsecond {
		t.Errorf("reads: %d of %v, the store %d of %v", command.Count(), command.Sum(), store.Count(), store.Sum())
	}
	if command, store = sum.Times(Flush); command.Sum() != 70*time.Microsecond || store.Sum() != 7*time.Microsecond {
		t.Errorf("flush: %v and %v", command.Sum(), store.Sum())
	}
	if command, store = sum.Times(Write); command != nil || store != nil {
		t.Error("writes, of which there were none")
	}
	if sum.Read != 4096 || sum.Written != 512 {
		t.Errorf("bytes %d and %d", sum.Read, sum.Written)
	}
	want := []Failed{{capsule.StatusInternalError, 2}, {capsule.StatusLBAOutOfRange, 1}}
	if got := sum.Errors(); !slices.Equal(got, want) {
		t.Errorf("errors %v, want %v", got, want)
	}
}

// TestErrorsAreBounded: a peer that causes many different statuses uses no more memory.
func TestErrorsAreBounded(t *testing.T) {
	var n Namespace
	for i := range 1000 {
		n.Fail(capsule.Status(i))
	}
	if len(n.Errors()) > maxErrors {
		t.Errorf("%d statuses", len(n.Errors()))
	}
}

func TestOp(t *testing.T) {
	names := map[string]bool{}
	for o := range Ops {
		names[o.String()] = true
	}
	if len(names) != int(Ops) {
		t.Errorf("names %v", names)
	}
	for o, want := range map[capsule.IOOpcode]Op{
		capsule.IORead: Read, capsule.IOWrite: Write, capsule.IOFlush: Flush, capsule.IOCompare: Compare, capsule.IOWriteZeroes: Zeroes,
		capsule.IODatasetManagement: Deallocate, capsule.IOCopy: Copy, capsule.IOVerify: Verify, capsule.IOReservationAcquire: Other, 0xff: Other,
	} {
		if got := OpOf(o); got != want {
			t.Errorf("opcode %v is %v, want %v", o, got, want)
		}
	}
}

// TestTurnsAllocate: turns allocate nothing when their list has reached its size.
func TestTurnsAllocate(t *testing.T) {
	var a Turn
	var n Namespace
	turn := func() {
		for range 64 {
			a.Answers = append(a.Answers, Answer{&n, 1, 2, Read})
		}
		a.Next(5)
	}
	turn()
	if got := testing.AllocsPerRun(100, turn); got != 0 {
		t.Errorf("%v allocations in a turn", got)
	}
}

func TestCauses(t *testing.T) {
	var c Causes
	for i := range 2 * maxCauses {
		c.Count(Disconnects, "", "host", strconv.Itoa(i))
		c.Count(Connects, "", "ok", "")
	}
	all := c.All()
	if all[Cause{Kind: Connects, Cause: "ok"}] != 2*maxCauses || all[Cause{Kind: Disconnects, Cause: "other"}] == 0 || len(all) > maxCauses+2 {
		t.Errorf("%d causes, %d connects", len(all), all[Cause{Kind: Connects, Cause: "ok"}])
	}
}

// BenchmarkCommand measures the cost of a Read from memory: the command and the transfer of its data.
func BenchmarkCommand(b *testing.B) {
	var t Turn
	var n Namespace
	for i := range b.N {
		t.Answers = append(t.Answers, Answer{&n, t.Now, notStored, Read})
		t.ToHosts.Observe(int64(20000 + i&0x3fff))
		if i%32 == 31 {
			t.Next(t.Now + 60000)
		}
	}
}

const notStored = -1
