package attachcommand

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
)

// connect connects by all addresses to which there is a route, and returns the others as absent.
func (a *attachment) connect(ctx context.Context, all *hosts.Pool, p *publisher) (absent []*fabricoptions.Held, err error) {
	paths, absent, err := a.routed(ctx, all, p.warn)
	if err != nil {
		return nil, err
	}
	silence := hosts.StartSilence(p.warn, paths...)
	defer silence.Stop()
	m := connections.Multipath{Wait: true, Attempt: silence.Failed, Wanted: p.wanted, KeepLost: a.CtrlLoss > 0}
	if p.subsystem, p.controllers, err = m.Connect(ctx, paths, p.changed); err != nil {
		return nil, hosts.Explain(ctx, err, paths...)
	}
	for i := range paths {
		p.names = append(p.names, paths[i].Options.Traddr.String())
	}
	return absent, nil
}

// routed returns the paths to which there is a route, and the connections to the others. If there is none, it waits
// for the first, as long as a lost controller would be reconnected.
func (a *attachment) routed(ctx context.Context, all *hosts.Pool, warn io.Writer) (paths []connections.Path, absent []*fabricoptions.Held, err error) {
	r := hosts.NewRetry(&a.Held, warn)
	for {
		var missing error
		paths, absent = nil, nil
		for _, one := range a.Each() {
			path, err := all.Path(one)
			switch {
			case provider.IsNoRoute(err):
				missing = errors.Join(missing, err)
				absent = append(absent, one)
			case err != nil:
				return nil, nil, err
			default:
				paths = append(paths, path)
			}
		}
		if len(paths) > 0 {
			return paths, absent, nil
		}
		if r.Late() {
			return nil, nil, missing
		}
		if err := r.Wait(ctx, missing); err != nil {
			return nil, nil, err
		}
	}
}

// followAbsent adds each absent path once there is a route to it and a controller answers, until stop is called.
func followAbsent(ctx context.Context, all *hosts.Pool, p *publisher, absent []*fabricoptions.Held) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, one := range absent {
		running.Go(func() { // ends when the path is there, or with ctx
			for r := hosts.NewRetry(one, p.warn); ; {
				path, err := all.Path(one)
				if err == nil {
					var c connections.Controller
					if c, err = p.subsystem.Add(ctx, path); err == nil {
						p.offerPath(latePath{path.Options.Traddr.String(), c})
						return
					}
				}
				if r.Wait(ctx, err) != nil {
					return
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// A latePath is a path to which there was no route at first.
type latePath struct {
	name       string
	controller connections.Controller
}

// offerPath passes a path to the command's goroutine. It may be called from any goroutine.
func (p *publisher) offerPath(l latePath) {
	p.mu.Lock()
	p.late = append(p.late, l)
	p.mu.Unlock()
	p.changed()
}

// addPaths adds the paths passed by offerPath.
func (p *publisher) addPaths() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.late {
		p.names = append(p.names, l.name)
		p.controllers = append(p.controllers, l.controller)
		p.reported = append(p.reported, connections.NewsSince(connections.Status{State: connections.Connecting}))
	}
	p.late = nil
}
