package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A served is the gateway as the [runner.Target] of the engine's runner.
type served Gateway

const (
	// releaseTime is how long closing the stores of a lost group may take before that is logged.
	releaseTime = 20 * time.Second
	// reopenTime is how long it may take if the gateway is to serve the group again. After that another gateway should try.
	reopenTime = 5 * time.Second
)

// Open implements [runner.Target].
func (s *served) Open(ctx context.Context, inc group.Incarnation) ([]string, error) {
	addresses, err := s.images.connect(control.Present(s.manager), inc, func() {
		go func() { // ends when the runner has been told, or has ended
			if run := s.run.Load(); run != nil {
				run.Blocklisted(inc)
			}
		}()
	})
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("the gateway cannot use the group's storage and serves nothing", zap.Error(err))
	}
	return addresses, err
}

// Close implements [runner.Target]. Stores that hang are closed later.
func (s *served) Close() {
	var all []<-chan struct{}
	for id := group.ID(1); id <= group.MaxID; id++ {
		all = append(all, s.letGo(id))
	}
	late := time.NewTimer(s.releaseTime)
	defer late.Stop()
	for i := 0; i < len(all); i++ {
		select {
		case <-all[i]:
		case <-late.C:
			i = len(all)
		}
	}
	s.images.close()
}

// letGo closes the stores of a group that was given up, however long that takes: the next owner waits for the locks
// of files. done is closed when they are closed or the manager will close them, and when the group is served here again.
func (s *served) letGo(id group.ID) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() { // ends when no command of the group is under way
		defer close(ended)
		for most := s.releaseTime; ; most = min(most, reopenTime) {
			ctx, cancel := context.WithTimeout(context.Background(), most)
			err := s.release(ctx, id)
			cancel()
			if err != nil && most == s.releaseTime {
				s.cfg.Log.Warn("cannot close the stores of an ANA group that is no longer served", zap.Uint16("group", uint16(id)), zap.Error(err))
			}
			var hung *target.DrainError
			if !errors.As(err, &hung) || hung.Ended != nil { // otherwise the Manager closes them
				return
			}
		}
	}()
	return ended
}

// release closes the stores of a group, unless the target serves it again.
func (s *served) release(ctx context.Context, id group.ID) error {
	s.locks[id].Lock()
	defer s.locks[id].Unlock()
	if s.owned.Serves(capsule.ANAGroup(id)) {
		return nil
	}
	return control.ReleaseGroup(ctx, s.manager, capsule.ANAGroup(id))
}

// Serve implements [runner.Target].
func (s *served) Serve(ctx context.Context, id group.ID, epoch uint64, b group.Backend) error {
	s.locks[id].Lock()
	defer s.locks[id].Unlock()
	s.term.limit(&s.owned, capsule.ANAGroup(id), b == group.Lease)
	// Stores are opened again, since another gateway may have changed them meanwhile.
	if !s.owned.Serves(capsule.ANAGroup(id)) {
		soon, cancel := context.WithTimeout(ctx, reopenTime)
		defer cancel()
		if err := control.ReleaseGroup(soon, s.manager, capsule.ANAGroup(id)); err != nil {
			return err
		}
	}
	done, err := s.prepare(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	return control.ServeGroup(ctx, s.manager, capsule.ANAGroup(id), epoch)
}

// prepare waits until the target has the current configuration and all storage of a group knows the fences, and
// reads the group's reservations, which are kept until done is called. It does these in parallel, since hosts wait.
func (s *served) prepare(ctx context.Context, id group.ID) (done func(), err error) {
	var all sync.WaitGroup
	var unfenced error
	all.Go(func() { (*Gateway)(s).awaitCurrent(ctx) })                                // ends in currentTime
	all.Go(func() { unfenced = s.images.await(ctx, control.Present(s.manager), id) }) // ends in awaitTime
	done, err = s.keepers.readAhead(ctx, id)
	all.Wait()
	switch {
	case err != nil:
		return nil, fmt.Errorf("reservations in the group's store: %w", err)
	case unfenced != nil:
		done()
		return nil, unfenced
	}
	return done, nil
}

// Drain implements [runner.Target].
func (s *served) Drain(ctx context.Context, id group.ID, _ uint64) error {
	s.locks[id].Lock()
	defer s.locks[id].Unlock()
	return control.DrainGroup(ctx, s.manager, capsule.ANAGroup(id))
}

// Stop implements [runner.Target].
func (s *served) Stop(id group.ID, _ uint64) {
	if err := s.owned.Stop(capsule.ANAGroup(id)); err != nil {
		s.cfg.Log.Error("cannot stop serving an ANA group", zap.Uint16("group", uint16(id)), zap.Error(err))
	}
	s.letGo(id)
}

// Extend implements [runner.Target].
func (s *served) Extend(until time.Duration) {
	s.term.extend(&s.owned, until)
}

// A term has the end of the lease, and the groups that are served under it.
type term struct {
	mu     sync.Mutex
	until  time.Duration // by package boottime
	groups []capsule.ANAGroup
}

func (t *term) extend(of *target.Gateway, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
	of.Extend(until, t.groups)
}

// remaining returns how long the lease lasts.
func (t *term) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.until-boottime.Now(), 0)
}

// limit sets whether a group has a lease, before it is served.
func (t *term) limit(of *target.Gateway, group capsule.ANAGroup, leased bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups = slices.DeleteFunc(t.groups, func(g capsule.ANAGroup) bool { return g == group })
	if leased {
		t.groups = append(t.groups, group)
	}
	of.Extend(t.until, t.groups)
}

// Fence implements [runner.Target]. Serve waits until each OSD knows the fence.
func (s *served) Fence(ctx context.Context, f group.Fence) error {
	return s.images.fence(ctx, f.Storage)
}

// Loads implements [runner.Target].
func (s *served) Loads() map[group.ID]uint64 { return s.loads.published() }

// Sizes implements [runner.Target].
func (s *served) Sizes() map[group.ID]int64 { return s.sizes.published() }
