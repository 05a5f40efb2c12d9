package lending

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A Loan controller is held by another process, which is the RoCE endpoint of this
// host's address.
type Loan struct {
	Lender    *connections.Process
	Name      string
	NQN       string
	Transport string
	Borrower  string // this process's control socket; empty: nobody's, which no lender holds
}

// ErrReplaced is why a controller was given up whose name another one has.
var ErrReplaced = errors.New("it was given up, and another controller has its name")

// Held reports whether the lender, as it is now, holds the controller. If not, the error is why
// it was given up; nil: somebody had it disconnected.
func (l *Loan) Held(now *connections.Process) (bool, error) {
	if why := now.Lost[l.Name]; why != "" {
		return false, errors.New(why)
	}
	for _, s := range now.Subsystems {
		for _, c := range s.Controllers {
			if c.Name != l.Name {
				continue
			}
			if c.Borrower != "" && filepath.Base(c.Borrower) == filepath.Base(l.Borrower) { // empty: the lender's own
				return true, nil
			}
			return false, ErrReplaced
		}
	}
	return false, nil
}

// Loans are those of one process. Any goroutine may call their methods.
type Loans struct {
	mu        sync.Mutex // guards what follows
	all       []Loan
	returning []Loan // of all, those that are being disconnected: their end is no loss
}

// Add adds one, and returns those that it replaces: their lender has given the name to this one, so that it
// has given them up.
func (l *Loans) Add(one Loan) (ended []Loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o Loan) bool {
		replaced := o.Name == one.Name && o.Lender.Socket == one.Lender.Socket
		if replaced && !slices.Contains(l.returning, o) {
			ended = append(ended, o)
		}
		return replaced
	})
	l.all = append(l.all, one)
	return ended
}

// List is those that there are now.
func (l *Loans) List() []Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// GiveBack has disconnect end a loan, which is one until that has succeeded. It reports
// whether there was one that nobody else was ending.
func (l *Loans) GiveBack(one Loan, disconnect func() error) (bool, error) {
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
	is := func(o Loan) bool { return o == one }
	l.returning = slices.DeleteFunc(l.returning, is)
	if err == nil {
		l.all = slices.DeleteFunc(l.all, is)
	}
	return true, err
}

// Lose drops one that has ended by itself, and reports whether it was there and nobody was
// ending it.
func (l *Loans) Lose(one Loan) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	l.all = slices.DeleteFunc(l.all, func(o Loan) bool { return o == one })
	return len(l.all) < n && !slices.Contains(l.returning, one)
}

// Processes are those whose ends this one follows.
type Processes struct {
	ended   func(p *connections.Process)
	ctx     context.Context
	cancel  context.CancelFunc
	watched map[string]<-chan struct{} // by socket, closed when that process has ended
	mu      sync.Mutex                 // guards watched, and that tasks begin before ctx ends
	tasks   sync.WaitGroup
}

// NewProcesses follows nobody yet. It calls ended when a process has ended that it followed,
// for each from another goroutine.
func NewProcesses(ended func(p *connections.Process)) *Processes {
	f := &Processes{ended: ended, watched: map[string]<-chan struct{}{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Follow begins to follow a process. The channel is closed when that has ended, or Close
// was called.
func (f *Processes) Follow(p *connections.Process) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.watched[p.Socket]; ok {
		return done
	}
	done, followed := make(chan struct{}), *p
	if f.ctx.Err() != nil {
		close(done)
		return done
	}
	f.watched[p.Socket] = done
	f.tasks.Go(func() { // ends with the process, or with close
		followed.AwaitEnd(f.ctx)
		f.mu.Lock()
		delete(f.watched, followed.Socket)
		f.mu.Unlock()
		close(done)
		if f.ctx.Err() == nil { // after delete: who follows it from now on finds by itself that it has ended
			f.ended(&followed)
		}
	})
	return done
}

// Close ends to follow them.
func (f *Processes) Close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.tasks.Wait()
}

// ErrLenderEnded is why a connection ended that another process held.
var ErrLenderEnded = errors.New("the process that held the connection has ended")

// LenderOf is the process that has an address. It may be about to say so.
func LenderOf(ctx context.Context, inUse *softroce.InUseError) (*connections.Process, error) {
	for range lenderTries {
		all, err := connections.All(ctx, connections.RunDir())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for i := range all {
			if slices.Contains(all[i].Addresses, inUse.Addr.String()) {
				return &all[i], nil
			}
		}
		if err != nil {
			return nil, errors.Join(inUse, err)
		}
		time.Sleep(lenderPause)
	}
	return nil, inUse
}

const (
	LeaveTime    = 10 * time.Second
	LookInterval = time.Second

	lenderTries = 10
	lenderPause = 100 * time.Millisecond
)
