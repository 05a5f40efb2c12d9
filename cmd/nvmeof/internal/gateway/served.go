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

// A served is what the gateway serves, as the engine's runner has it.
type served Gateway

const (
	// releaseTime is how long what a gateway has lost may take to be closed, until that is said, and others begin.
	releaseTime = 20 * time.Second
	// reopenTime is how long it may take where the gateway is to serve it again: with a store that hangs others had better try.
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
		s.cfg.Log.Error("the gateway cannot use the group's storage, and serves nothing", zap.Error(err))
	}
	return addresses, err
}

// Close implements [runner.Target]. What hangs is closed later.
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

// letGo closes the stores of a group that was given up, however long they take: whoever serves it waits for the locks
// of files. The channel is closed when they are closed, or will be, and when the group is served here again.
func (s *served) letGo(id group.ID) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() { // ends with what is under way in the group
		defer close(ended)
		for most := s.releaseTime; ; most = min(most, reopenTime) {
			ctx, cancel := context.WithTimeout(context.Background(), most)
			err := s.release(ctx, id)
			cancel()
			if err != nil && most == s.releaseTime {
				s.cfg.Log.Warn("closing what an ANA group has that is served no more", zap.Uint16("group", uint16(id)), zap.Error(err))
			}
			var hung *target.DrainError
			if !errors.As(err, &hung) || hung.Ended != nil { // after that the Manager closes them
				return
			}
		}
	}()
	return ended
}

// release closes the stores of a group that the target does not serve.
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
	// What another gateway may have changed since is opened, and read, again.
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

// prepare has what a group needs before it is served: the present configuration, fences that are known to
// all of its storage, and its reservations, until done is called. Hosts wait for the slowest of these.
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
		s.cfg.Log.Error("stopping an ANA group", zap.Uint16("group", uint16(id)), zap.Error(err))
	}
	s.letGo(id)
}

// Extend implements [runner.Target].
func (s *served) Extend(until time.Duration) {
	s.term.extend(&s.owned, until)
}

// A term is until when groups of a lease may be served, and which those are.
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

// remaining is how long groups of a lease may be served.
func (t *term) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.until-boottime.Now(), 0)
}

// limit says of a group, before it is served, whether it has a lease.
func (t *term) limit(of *target.Gateway, group capsule.ANAGroup, leased bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups = slices.DeleteFunc(t.groups, func(g capsule.ANAGroup) bool { return g == group })
	if leased {
		t.groups = append(t.groups, group)
	}
	of.Extend(t.until, t.groups)
}

// Fence implements [runner.Target]. Each OSD has the fence by when a group is served: see Serve.
func (s *served) Fence(ctx context.Context, f group.Fence) error {
	return s.images.fence(ctx, f.Storage)
}

// Loads implements [runner.Target].
func (s *served) Loads() map[group.ID]uint64 { return s.loads.published() }

// Sizes implements [runner.Target].
func (s *served) Sizes() map[group.ID]int64 { return s.sizes.published() }
