package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A lent controller is held by another process, which is the RoCE endpoint of this
// host's address.
type lent struct {
	owner     *connections.Process
	name      string
	nqn       string
	transport string
}

// loans are those of one process. Any goroutine may call their methods.
type loans struct {
	mu        sync.Mutex // guards what follows
	all       []lent
	returning []lent // of all, those that are being disconnected: their end is no loss
}

func (l *loans) add(one lent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
}

func (l *loans) list() []lent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// giveBack has disconnect end a loan, which is one until that has succeeded. It reports
// whether there was one that nobody else was ending.
func (l *loans) giveBack(one lent, disconnect func() error) (bool, error) {
	l.mu.Lock()
	mine := slices.Contains(l.all, one) && !slices.Contains(l.returning, one)
	if mine {
		l.returning = append(l.returning, one)
	}
	l.mu.Unlock()
	if !mine {
		return false, nil
	}
	err := disconnect()
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(o lent) bool { return o == one }
	l.returning = slices.DeleteFunc(l.returning, is)
	if err == nil {
		l.all = slices.DeleteFunc(l.all, is)
	}
	return true, err
}

// lose drops one that has ended by itself, and reports whether it was there and nobody was
// ending it.
func (l *loans) lose(one lent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	l.all = slices.DeleteFunc(l.all, func(o lent) bool { return o == one })
	return len(l.all) < n && !slices.Contains(l.returning, one)
}

// owners are the processes that do something for this one, whose ends it follows.
type owners struct {
	ended chan struct{} // one has, since it was last read

	ctx     context.Context
	cancel  context.CancelFunc
	watched map[string]<-chan struct{} // by socket, closed when that process has ended
	mu      sync.Mutex                 // guards watched
	tasks   sync.WaitGroup
}

func newOwners() *owners {
	o := &owners{ended: make(chan struct{}, 1), watched: map[string]<-chan struct{}{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// follow begins to follow a process. The channel is closed when that has ended, or close
// was called.
func (o *owners) follow(p *connections.Process) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if done, ok := o.watched[p.Socket]; ok {
		return done
	}
	done, owner := make(chan struct{}), *p
	o.watched[p.Socket] = done
	o.tasks.Go(func() { // ends with the process, or with close
		owner.AwaitEnd(o.ctx)
		o.mu.Lock()
		delete(o.watched, owner.Socket)
		o.mu.Unlock()
		close(done)
		select {
		case o.ended <- struct{}{}:
		default:
		}
	})
	return done
}

func (o *owners) close() {
	o.cancel()
	o.tasks.Wait()
}

// connectAnyhow connects, or lets who can.
func (k *keeper) connectAnyhow(ctx context.Context, h *held, options map[string]string) (string, error) {
	name, err := k.connect(ctx, h)
	var inUse *softroce.InUseError
	if errors.As(err, &inUse) {
		return k.connectBy(ctx, h, inUse, options)
	}
	return name, err
}

// connectBy lets the owner of an address connect.
func (k *keeper) connectBy(ctx context.Context, h *held, inUse *softroce.InUseError, options map[string]string) (string, error) {
	owner, err := ownerOf(ctx, inUse)
	if err != nil {
		return "", err
	}
	name, err := owner.Connect(ctx, options)
	if err != nil {
		return "", fmt.Errorf("process %d, which is the RoCE endpoint of %v, does not connect: %w", owner.PID, inUse.Addr, err)
	}
	fmt.Fprintf(k.warn, "nvmeof: %s: held by process %d, which is the RoCE endpoint of %v\n", name, owner.PID, inUse.Addr)
	k.lent.add(lent{owner, name, h.nqn, h.transport})
	k.owners.follow(owner)
	return name, nil
}

// wait returns when ctx ends, or when nothing is connected any more: then why, if that
// was by nobody's wish.
func (k *keeper) wait(ctx context.Context) error {
	idle := k.holder.Idle()
	if len(k.holder.Info().Subsystems) == 0 {
		closed := make(chan struct{})
		close(closed)
		idle = closed
	}
	var lost error
	for len(k.lent.list()) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAtOwner): // so that one that has ended has left its address
		}
		for _, l := range k.lent.list() {
			now, err := l.owner.Info(ctx)
			var why error
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				why = errOwnerEnded
			case now.Lost[l.name] != "":
				why = errors.New(now.Lost[l.name])
			case has(&now, l.name):
				continue
			}
			if k.lent.lose(l) && why != nil {
				lost = fmt.Errorf("%s: %w", l.name, why)
			}
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-idle:
		return errors.Join(k.holder.Lost(), lost)
	}
}

// orphans forgets the controllers whose process has ended, and returns their names.
func (k *keeper) orphans(ctx context.Context) (names []string) {
	for _, l := range k.lent.list() {
		if _, err := l.owner.Info(ctx); err != nil && ctx.Err() == nil && k.lent.lose(l) {
			names = append(names, l.name)
		}
	}
	return names
}

// recall disconnects those of the wanted controllers that others hold for us. One that
// could not be disconnected is asked for again by the next recall, or at the end.
func (k *keeper) recall(ctx context.Context, wanted func(connections.SubsystemInfo, connections.ControllerInfo) bool) (names []string, err error) {
	var errs []error
	for _, l := range k.lent.list() {
		if !wanted(connections.SubsystemInfo{NQN: l.nqn}, connections.ControllerInfo{Name: l.name, Transport: l.transport}) {
			continue
		}
		_, err := k.lent.giveBack(l, func() error {
			done, err := l.owner.Disconnect(ctx, "", l.name, "")
			names = append(names, done...)
			return err
		})
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

// giveBack disconnects what others hold for us.
func (k *keeper) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveOwner)
	defer cancel()
	var errs []error
	for _, l := range k.lent.list() {
		_, err := k.lent.giveBack(l, func() error {
			_, err := l.owner.Disconnect(ctx, "", l.name, "")
			return err
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
