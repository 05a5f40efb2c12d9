package runner

import (
	"context"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// A job is an operation of the target on a group.
type job struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// begin starts an operation on a group once the previous one has ended. It passes the result to the engine, unless the
// engine has requested another operation on the group meanwhile: it would take the result for that of the later one.
func (r *Runner) begin(id group.ID, do func(ctx context.Context) group.Event) {
	before, life := r.jobs[id], r.life
	ctx, cancel := context.WithCancel(life)
	j := &job{cancel, make(chan struct{})}
	r.jobs[id] = j
	if before != nil {
		before.cancel()
	}
	r.spawn(func() {
		defer close(j.done)
		defer cancel()
		if before != nil {
			<-before.done
		}
		if result := do(ctx); result != nil {
			r.post(func() {
				if r.jobs[id] == j {
					r.step(result)
				}
			})
		}
	})
}

func (r *Runner) serve(a group.Serve) {
	r.begin(a.Group, func(ctx context.Context) group.Event {
		err := r.cfg.Target.Serve(ctx, a.Group, a.Epoch, a.Backend)
		if ctx.Err() != nil && err == nil { // it was stopped meanwhile
			r.cfg.Target.Stop(a.Group, a.Epoch)
			err = ctx.Err()
		}
		return group.Served{Group: a.Group, Epoch: a.Epoch, Err: err}
	})
}

func (r *Runner) drain(a group.Drain) {
	r.begin(a.Group, func(ctx context.Context) group.Event {
		return group.Drained{Group: a.Group, Epoch: a.Epoch, Err: r.cfg.Target.Drain(ctx, a.Group, a.Epoch)}
	})
}

// stop stops a group at once, and again when the operation in progress has ended.
func (r *Runner) stop(a group.Stop) {
	r.cfg.Target.Stop(a.Group, a.Epoch)
	if r.jobs[a.Group] != nil {
		r.begin(a.Group, func(context.Context) group.Event {
			r.cfg.Target.Stop(a.Group, a.Epoch)
			return nil
		})
	}
}
