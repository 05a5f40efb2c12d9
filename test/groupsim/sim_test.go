package groupsim

import (
	"flag"
	"hash/fnv"
	"strings"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 5, "how many seeds TestGroup runs")
	first = flag.Uint64("seed", 1, "the first of them; with -seeds 1 and -v it tells its story")
	limit = flag.Duration("for", 0, "end after so long, however many seeds there are; 0: when all are done")
	fails = flag.Int("fails", 3, "end after so many seeds that fail")
	many  = flag.Bool("long", false, "look for each fault from seed 1")
)

func simulate(seed uint64, wrong fault, telling bool) *world {
	w := newWorld(seed, wrong, telling)
	w.live()
	return w
}

// TestGroup runs worlds, and prints the story of one in which a check fails.
func TestGroup(t *testing.T) {
	start, failed, steps, fake, commands, ran := time.Now(), 0, 0, time.Duration(0), 0, 0
	for seed := *first; seed < *first+*seeds && failed < *fails && (*limit == 0 || time.Since(start) < *limit); seed++ {
		w := simulate(seed, nothing, *seeds == 1 && testing.Verbose())
		ran++
		steps += w.steps
		fake += w.now
		for _, k := range w.workers {
			commands += k.done
		}
		if len(w.violations) > 0 {
			failed++
			w = simulate(seed, nothing, true)
			t.Errorf("seed %d: %s\n%s\nagain: go test ./test/groupsim -run TestGroup -seed %d -seeds 1 -v",
				seed, strings.Join(w.violations, "; "), strings.Join(w.story, "\n"), seed)
		} else if w.telling {
			t.Log(strings.Join(w.story, "\n"))
		}
	}
	took := time.Since(start)
	t.Logf("%d seeds in %v, %.0f a second; %v of fake time, %d events, %d commands of hosts",
		ran, took.Round(time.Millisecond), float64(ran)/took.Seconds(), fake.Round(time.Second), steps, commands)
}

// TestReplay: a seed always gives the same story.
func TestReplay(t *testing.T) {
	for seed := range uint64(4) { // some of them publish loads
		sum := [2]uint64{}
		for i := range sum {
			h := fnv.New64a()
			h.Write([]byte(strings.Join(simulate(seed, nothing, true).story, "\n")))
			sum[i] = h.Sum64()
		}
		if sum[0] != sum[1] {
			t.Errorf("seed %d tells two stories", seed)
		}
	}
}

// TestFaultsAreFound injects each fault in turn and looks for a seed that reveals it. It begins with the seed that did
// so when this was written.
func TestFaultsAreFound(t *testing.T) {
	for _, f := range []struct {
		name  string
		wrong fault
		seed  uint64 // that reveals it; if it no longer does, the test takes long
	}{
		{"skip the fence", skipFence, 11},
		{"serve before the fence", serveBeforeFence, 11},
		{"wait until the client has the map", weakFence, 469},
		{"do not wait for the map", staleMap, 469},
		{"end drains at once", earlyDrain, 8},
		{"compare nothing", blindTake, 23},
		{"ignore the term of leases", ignoreTerm, 71},
		{"ignore the epoch", ignoreEpoch, 220},
		{"answer conflicts without the store", staleConflict, 1204},
		{"do not wait for commands of the preempted", deafAbort, 15},
	} {
		t.Run(f.name, func(t *testing.T) {
			most := f.seed + 40
			if *many {
				f.seed, most = 1, 10000
			}
			for seed := f.seed; seed <= most; seed++ {
				if w := simulate(seed, f.wrong, false); len(w.violations) > 0 {
					t.Logf("seed %d: %s", seed, w.violations[0])
					return
				}
			}
			t.Errorf("not found in seeds %d to %d", f.seed, most)
		})
	}
}
