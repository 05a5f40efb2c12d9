package etcd

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

// loopback is the address of all members of this package's tests.
const (
	host     = "127.105.0.1"
	loopback = host + ":0"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	cfg.Group = "g"
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSuite runs on the server of this package; test/etcd runs it on a real one.
func TestSuite(t *testing.T) {
	t.Parallel()
	statetest.Suite{Parallel: true, New: func(t *testing.T) statetest.System {
		s := newServer()
		m := s.member(t, loopback)
		return statetest.System{
			Open:        func() state.Store { return open(t, Config{Endpoints: []string{m.address}}) },
			LoseReplies: func(on bool) { s.do(func() { s.lose = on }) },
			Cut: func(on bool) {
				if on {
					m.stop()
				} else {
					m.start()
				}
			},
			Within: 10 * time.Second, // machines may be slow
		}
	}}.Run(t)
}
