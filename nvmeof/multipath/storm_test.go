package multipath

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

var (
	seeds = flag.Uint64("multipath.seeds", 1, "seeds of TestStorm")
	long  = flag.Bool("long", false, "every policy and setting, and more requests while targets are away")
)

// TestStorm: random faults, from a seed, hit two targets, often both at a time, and are repaired sooner or later. No
// data is lost.
func TestStorm(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				l := newLab(t, 2)
				cfg := l.config()
				cfg.Policy = Policy(seed % 4)
				s := l.connect(cfg)
				load := startLoad(t, l.namespace(s))
				for range 12 {
					side := l.sides[rng.IntN(2)]
					if side.target == nil {
						side.revive()
						continue
					}
					l.trouble(side, rng)
					time.Sleep(time.Duration(rng.Int64N(int64(8 * time.Second))))
				}
				l.calm()
				load.progress()
				load.stop()
				for _, p := range s.Paths() {
					l.await(p, StateLive)
					t.Logf("%v: %d reconnects, %d errors", p.Addr(), p.Status().Reconnects, p.Status().Errors)
				}
			})
		})
	}
}

// trouble is one fault of a target.
func (l *lab) trouble(side *side, rng *rand.Rand) {
	states := []capsule.ANAState{
		capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAChange,
	}
	switch rng.IntN(6) {
	case 0:
		side.kill()
	case 1:
		l.sever(side, true)
	case 2:
		l.silence(side, true)
	case 3:
		l.sever(side, false)
		l.silence(side, false)
	case 4: // every controller at once
		for _, c := range side.target.Controllers() {
			l.must(side.sub.Disconnect(c.ID))
		}
	default:
		side.set(states[rng.IntN(len(states))])
	}
}

// calm repairs all faults.
func (l *lab) calm() {
	for _, side := range l.sides {
		l.sever(side, false)
		l.silence(side, false)
		if side.target == nil {
			side.start()
		}
		side.set(capsule.ANAOptimized)
	}
}

// silence drops what a target sends, but not what it receives.
func (l *lab) silence(s *side, mute bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute[s.addr.Addr()] = mute
}
