package gateway

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/runner"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	tendEvery = time.Second
	// tryEvery is the interval at which a gateway that may not fence checks that again, and repeats the
	// alarm that it cannot serve.
	tryEvery = time.Minute
)

// A monitor checks what a gateway needs in addition to the group's store: clients of the clusters that have
// its images, the permission to fence others, an open listener, and storage that answers.
type monitor struct {
	*Gateway
	run interface {
		Storage(of group.Incarnation, addresses []string)
		Stuck(bool)
	}

	// Used by storage alone.
	revision int64     // of the configuration whose clusters were checked
	begun    int       // value of clients.begun at that time
	said     string    // the error that was logged last
	tried    time.Time // when a trial fence last failed

	// Used by service alone.
	unfit     string // why no I/O can be served here; empty: it can
	unfitSaid time.Time
	reach     reach
}

func newMonitor(g *Gateway, run *runner.Runner) *monitor {
	t := &monitor{Gateway: g, run: run}
	t.reach.ask = func(ctx context.Context) error { return g.images.reach(ctx, control.Present(g.manager)) }
	t.reach.held.ask = t.heldWrites
	return t
}

// heldWrites returns nil if all images that do not answer wait since their pools execute no writes, for any gateway.
func (t *monitor) heldWrites(ctx context.Context) error {
	m := t.target.Measure()
	return t.images.holding(ctx, silentImages(&m, t.owned.Serves, control.Present(t.manager)), func(pool string) {
		t.alarm(group.Alarm{Kind: group.AlarmServe, Gateway: t.name, Text: fmt.Sprintf("pool %s executes no writes for any gateway, and images do not answer hosts: "+
			"it is full, or writes are paused (ceph health detail); the images go on by themselves", pool)})
	})
}

// repeat calls look each second until ctx ends.
func repeat(ctx context.Context, look func(context.Context)) {
	every := time.NewTicker(tendEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			look(ctx)
		}
	}
}

// storage checks the clusters. For one that does not answer it takes as long as Ceph waits for it.
func (t *monitor) storage(ctx context.Context) {
	t.clusters(ctx)
	t.fencing(ctx)
}

// service checks whether the gateway can serve. Other gateways learn that soon, even if clusters do not answer.
func (t *monitor) service(ctx context.Context) {
	t.health(len(t.target.Listeners()), t.reach.now(ctx, t.silent(), t.stuck.Load()))
}

// clusters makes clients of all clusters that have images of the configuration.
func (t *monitor) clusters(ctx context.Context) {
	revision, _ := control.Revision(t.manager)
	begun, registered := t.images.started()
	if t.said == "" && revision == t.revision && begun == t.begun && registered {
		return
	}
	t.revision, t.begun = revision, begun
	of, addresses, err := t.images.extend(ctx, control.Present(t.manager))
	if len(addresses) > 0 {
		t.run.Storage(of, addresses)
	}
	switch {
	case err == nil:
		t.said = ""
	case ctx.Err() == nil && err.Error() != t.said:
		t.said = err.Error()
		t.cfg.Log.Error("the gateway cannot use the storage of some images and does not serve them", zap.Error(err))
	}
}

// fencing checks that the gateway may fence others, before one fails.
func (t *monitor) fencing(ctx context.Context) {
	if time.Since(t.tried) < tryEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	if err := t.images.try(ctx); err != nil {
		t.tried = time.Now()
		t.alarm(group.Alarm{Kind: group.AlarmFence, Gateway: t.name,
			Text: fmt.Sprintf("this gateway cannot fence other gateways, so it does not take over from those that fail: %v; its Ceph client needs the capability mon 'profile rbd' (ceph auth get)", err)})
	}
}

// silent reports whether an image that is served does not answer. While one does not, it is measured each time: that it
// answers again has to be noticed soon, since others may be about to serve it.
func (t *monitor) silent() bool {
	if !t.loads.silent.Load() {
		return false
	}
	m := t.target.Measure()
	is := silentImage(&m, t.owned.Serves)
	t.loads.silent.Store(is)
	return is
}

// health reports the gateway as stuck if none of its listeners is open (n is their number) or it does not reach
// the images, so that others serve its groups.
func (t *monitor) health(n int, reaches bool) {
	why := ""
	switch {
	case n == 0:
		why = "no host can reach this gateway, because no listener is open (nvmeof ls shows why): other gateways serve its ANA groups if they can"
	case !reaches:
		why = "the storage of its images does not answer this gateway: other gateways serve its ANA groups if the storage answers them; check ceph -s and the network to the OSDs"
	}
	if why != "" || t.unfit != "" {
		t.run.Stuck(why != "") // repeated, since a new incarnation does not know it
	}
	if t.unfit = why; why != "" && time.Since(t.unfitSaid) > tryEvery {
		t.unfitSaid = time.Now()
		t.alarm(group.Alarm{Kind: group.AlarmServe, Gateway: t.name, Text: why})
	}
}
