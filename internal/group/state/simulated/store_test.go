package simulated

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

// TestSuite runs under fake time.
func TestSuite(t *testing.T) {
	statetest.Suite{In: synctest.Test, New: func(t *testing.T) statetest.System {
		b := Share(New(rand.New(rand.NewPCG(3, 4))))
		everyLink := func(l Link) {
			b.Do(func(s *Store, _ time.Time) {
				for c := range s.clients {
					s.SetLink(Client(c), l)
				}
			})
		}
		return statetest.System{
			Open:        func() state.Store { return b.Open(time.Second) },
			LoseReplies: func(on bool) { everyLink(Link{CutReplies: on}) },
			Cut:         func(on bool) { b.Do(func(s *Store, _ time.Time) { s.SetDown(on) }) },
		}
	}}.Run(t)
}
