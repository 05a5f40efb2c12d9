package runner

import (
	"context"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// A job is something that the target does with a group.
type job struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// begin does something with a group, once what was before has ended. The engine gets the result, if there is
// one and it has not wanted something else of the group since: it would take it for the result of that.
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

// stop stops at once, and again when what was under way has ended.
func (r *Runner) stop(a group.Stop) {
	r.cfg.Target.Stop(a.Group, a.Epoch)
	if r.jobs[a.Group] != nil {
		r.begin(a.Group, func(context.Context) group.Event {
			r.cfg.Target.Stop(a.Group, a.Epoch)
			return nil
		})
	}
}
