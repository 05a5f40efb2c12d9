package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A dumb store does not say how large it is before it may.
type dumb struct {
	backend.Store
	asked chan<- struct{}
	may   <-chan struct{}
}

func (s dumb) Refresh() (bool, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-s.may
	return false, nil
}

// TestReleasedAgain: a group is given back a second time while a store has not finished with the first.
func TestReleasedAgain(t *testing.T) {
	asked, may := make(chan struct{}, 1), make(chan struct{})
	g := newGatewayRig(t, sharedFiles(t), func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			if err == nil && n.NSID == 2 {
				s = dumb{s, asked, may}
			}
			return s, notes, err
		}
	})
	g.set(strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1))
	ctx := t.Context()
	g.must(ServeGroup(ctx, g.Manager, 2, 1))
	go g.target.Revalidate() // ends when the store says how large it is
	<-asked
	release := func() error {
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return ReleaseGroup(soon, g.Manager, 2)
	}
	g.must(g.gateway.Stop(2))
	var hung *target.DrainError
	if err := release(); !errors.As(err, &hung) || hung.Ended == nil {
		t.Fatalf("given back with %v", err)
	}
	if err := release(); !errors.As(err, &hung) || !strings.Contains(err.Error(), "two") {
		t.Errorf("it is given back again, with %v", err)
	}
	close(may)
	g.must(ReleaseGroup(ctx, g.Manager, 2))
	g.must(ServeGroup(ctx, g.Manager, 2, 2))
	g.wantOpen(2)
	if why := g.why(2); why != "" {
		t.Errorf("the namespace waits for %q", why)
	}
}
