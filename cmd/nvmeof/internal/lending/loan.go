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

// A Loan is a controller held by another process, which is the RoCE endpoint of this host's address.
type Loan struct {
	Lender    *connections.Process
	Name      string
	NQN       string
	Transport string
	Borrower  string // this process's control socket; empty: none, and no lender holds the controller
}

// ErrReplaced is the reason of a loan's end when another controller has its name.
var ErrReplaced = errors.New("the controller was given up, and another one now has its name")

// Held reports whether the lender, as described by now, holds the controller. If not, the error is why it was given
// up, or nil if it was disconnected on request.
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

// Loans is the set of loans of one process. Its methods may be called from any goroutine.
type Loans struct {
	mu        sync.Mutex // guards the fields below
	all       []Loan
	returning []Loan // those of all that are being disconnected: their end is not a loss
}

// Add adds a loan. It returns the loans that it replaces: the lender reuses a name only after it has given the former
// controller up.
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

// List returns the current loans.
func (l *Loans) List() []Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// GiveBack ends a loan with disconnect; the loan remains in the list until that has succeeded. It returns false,
// without a call of disconnect, if the loan does not exist or is being ended already.
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

// Lose removes a loan that has ended by itself. It reports whether the loan existed and was not being ended by
// GiveBack.
func (l *Loans) Lose(one Loan) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	l.all = slices.DeleteFunc(l.all, func(o Loan) bool { return o == one })
	return len(l.all) < n && !slices.Contains(l.returning, one)
}

// Processes watches for the end of other processes.
type Processes struct {
	ended   func(p *connections.Process)
	ctx     context.Context
	cancel  context.CancelFunc
	watched map[string]<-chan struct{} // by socket; closed when that process has ended
	mu      sync.Mutex                 // guards watched, and orders the start of tasks before the end of ctx
	tasks   sync.WaitGroup
}

// NewProcesses returns a Processes that follows none yet. It calls ended, from a goroutine per process, when a
// followed process has ended.
func NewProcesses(ended func(p *connections.Process)) *Processes {
	f := &Processes{ended: ended, watched: map[string]<-chan struct{}{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Follow starts to follow a process. The channel is closed when the process has ended or Close was called.
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
	f.tasks.Go(func() { // ends with the process, or with Close
		followed.AwaitEnd(f.ctx)
		f.mu.Lock()
		delete(f.watched, followed.Socket)
		f.mu.Unlock()
		close(done)
		if f.ctx.Err() == nil { // after delete: later callers of Follow find out by themselves that it has ended
			f.ended(&followed)
		}
	})
	return done
}

// Close stops following all processes.
func (f *Processes) Close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.tasks.Wait()
}

// ErrLenderEnded is the reason of a loan's end when the lending process has ended.
var ErrLenderEnded = errors.New("the process that held the connection has ended")

// LenderOf returns the process that has an address. It waits a little for that process to publish this.
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
