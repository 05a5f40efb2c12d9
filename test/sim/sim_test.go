package sim

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 5, "how many seeds TestSim runs")
	fails = flag.Int("fails", 3, "end after so many seeds that fail")
	limit = flag.Duration("for", 0, "end after so long, however many seeds there are; 0: when all are done")
	holds = flag.Bool("holds", false, "hold targets up, too, as a signal does: other stories of the same seeds")
	first = flag.Uint64("seed", 1, "the first of them; with -seeds 1 and -v it tells its story")
)

const (
	// gcPercent is GOGC of TestSim. It is high because a world is short and its heap is small.
	gcPercent = 800
	// memoryLimit limits the heap in addition. Memory of a synctest bubble is freed only by the second collection after
	// its end, and with GOGC alone the heap at each collection would be a multiple of that at the one before.
	memoryLimit = 512 << 20
)

// TestSim runs worlds, and prints the story of one in which a check fails.
func TestSim(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	start, failed, events, fake := time.Now(), 0, int64(0), time.Duration(0)
	ran, unchecked := 0, 0
	if testing.Short() {
		*seeds = min(*seeds, 5)
	}
	for seed := *first; seed < *first+*seeds && failed < *fails && (*limit == 0 || time.Since(start) < *limit); seed++ {
		w := simulate(t, seed)
		events += w.count.Load()
		fake += w.lasted
		ran++
		unchecked += w.unchecked
		if w.report(t) {
			failed++
		}
	}
	took := time.Since(start)
	t.Logf("%d seeds in %v, %.0f a second; %v of fake time, %d events; %d blocks were too much for porcupine",
		ran, took.Round(time.Millisecond), float64(ran)/took.Seconds(), fake.Round(time.Second), events, unchecked)
}

// TestHolds: a target executes nothing that arrived while its packets were held, unless its hosts have waited for that.
func TestHolds(t *testing.T) {
	defer func(before bool) { *holds = before }(*holds)
	*holds = true
	for _, seed := range []uint64{252, 795} {
		simulate(t, seed).report(t)
	}
}

// simulate runs the world of a seed.
func simulate(t *testing.T, seed uint64) *world {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	cryptotest.SetGlobalRandom(t, seed)
	var w *world
	defer func() {
		if r := recover(); r != nil { // includes synctest's: all goroutines are blocked forever
			t.Logf("seed %d:\n%s", seed, strings.Join(w.storyLines(), "\n"))
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed)
		w.run()
		w.lasted = w.clock()
	})
	w.check()
	return w
}

// report prints the story of a world in which a check failed.
func (w *world) report(t *testing.T) bool {
	bad := len(w.violations) > 0
	if !bad && (*seeds != 1 || !testing.Verbose()) {
		return false
	}
	t.Logf("seed %d:\n%s", w.seed, strings.Join(w.storyLines(), "\n"))
	for _, v := range w.violations {
		t.Errorf("seed %d: %s", w.seed, v)
	}
	if bad {
		t.Logf("again: go test ./test/sim -run TestSim -seed %d -seeds 1 -v", w.seed)
	}
	return bad
}

// TestReplay: the same seed gives the same story, except for what the runtime chooses.
func TestReplay(t *testing.T) {
	if raceEnabled {
		t.Skip("with the race detector the runtime takes goroutines in an order of its own")
	}
	const worlds = 5
	departed := 0
	for seed := range uint64(worlds) {
		a, b := simulate(t, seed), simulate(t, seed)
		if a.fingerprint() != b.fingerprint() {
			departed++
			t.Logf("seed %d tells two stories, which differ from here:\n%s", seed, difference(a.storyLines(), b.storyLines()))
		}
	}
	t.Logf("%d of %d seeds tell two stories", departed, worlds)
	if departed == worlds {
		t.Error("something is chosen that does not come from the seed")
	}
}

// difference returns the first lines that differ.
func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%s\n%s", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, and %d", len(a), len(b))
}
