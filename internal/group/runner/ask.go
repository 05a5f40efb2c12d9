package runner

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// ask has the goroutine of the engine do something, and waits for it.
func (r *Runner) ask(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case r.inbox <- func() { do(); close(done) }:
	case <-r.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

// Command carries out a command of the administrator. If the context ends before it was, it is not
// carried out unless that has begun.
func (r *Runner) Command(ctx context.Context, c group.Command) error {
	answer, token := make(chan error, 1), uint64(0)
	err := r.ask(ctx, func() {
		r.token++
		c.Token, token = r.token, r.token
		r.answers[c.Token] = answer
		r.step(c)
	})
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-r.done:
		return ErrClosed
	case <-ctx.Done():
		r.post(func() {
			delete(r.answers, token)
			r.step(group.Cancel{Token: token})
		})
		return ctx.Err()
	}
}

// Status is the group as this gateway sees it, and when that was, by the runner's clock.
func (r *Runner) Status(ctx context.Context) (s group.Status, err error) {
	err = r.ask(ctx, func() { s = r.engine.Status() })
	return s, err
}

// Configure says which groups there are.
func (r *Runner) Configure(groups []group.Group) {
	r.post(func() { r.step(group.Configure{Groups: groups}) })
}

// Storage says that the clients of an incarnation have other addresses. What is said before that has begun, or when it
// has ended, counts for nothing: it is to be said again until Status has the addresses.
func (r *Runner) Storage(inc group.Incarnation, addresses []string) {
	r.post(func() { r.step(group.Storage{Incarnation: inc, Addresses: addresses}) })
}

// Blocklisted says that the storage has refused an incarnation.
func (r *Runner) Blocklisted(inc group.Incarnation) {
	r.post(func() { r.step(group.Blocklisted{Incarnation: inc}) })
}

// Stuck says whether the gateway cannot serve: see [group.Health].
func (r *Runner) Stuck(stuck bool) {
	r.post(func() { r.step(group.Health{Stuck: stuck}) })
}

// Starting says that the gateway does not have the group's configuration yet.
func (r *Runner) Starting() {
	r.post(func() { r.step(group.Behind{Behind: true, Starting: true}) })
}

// Behind says whether the gateway does not have the group's configuration.
func (r *Runner) Behind(behind bool) {
	r.post(func() { r.step(group.Behind{Behind: behind}) })
}

// Gone says that no process of an incarnation is left.
func (r *Runner) Gone(inc group.Incarnation) {
	r.post(func() { r.step(group.Gone{Incarnation: inc}) })
}

// Leave gives back all groups, and ends the registration. It takes as long as commands under
// way do, at most the engine's LeaveTimeout. Close comes after it.
func (r *Runner) Leave(ctx context.Context) error {
	if err := r.ask(ctx, func() { r.step(group.Leave{}) }); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	select {
	case <-r.done:
		r.calls.Wait()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the runner at once, without giving anything back, and waits for what it has begun.
func (r *Runner) Close() {
	r.cancel()
	<-r.done
	r.wait.Wait()
	r.cfg.Target.Close()
}
