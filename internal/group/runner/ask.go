package runner

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// ask runs do on the engine's goroutine and waits for it.
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

// Command executes a command of the administrator. If the context ends first, the command is dropped unless its
// execution has begun.
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

// Status returns the group as this gateway sees it, and the time of that view by the runner's clock.
func (r *Runner) Status(ctx context.Context) (s group.Status, err error) {
	err = r.ask(ctx, func() { s = r.engine.Status() })
	return s, err
}

// Configure sets the configured groups.
func (r *Runner) Configure(groups []group.Group) {
	r.post(func() { r.step(group.Configure{Groups: groups}) })
}

// Storage says that the storage clients of an incarnation have different addresses. It is ignored before the
// incarnation has begun and after it has ended: repeat it until Status shows the addresses.
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

// Behind says whether the gateway lacks the group's configuration.
func (r *Runner) Behind(behind bool) {
	r.post(func() { r.step(group.Behind{Behind: behind}) })
}

// Gone says that no process of an incarnation exists any more.
func (r *Runner) Gone(inc group.Incarnation) {
	r.post(func() { r.step(group.Gone{Incarnation: inc}) })
}

// Leave gives back all groups and ends the registration. It takes as long as the commands in progress, at most the
// engine's LeaveTimeout. Call Close after it.
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
