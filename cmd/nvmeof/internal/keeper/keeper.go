package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/discover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A Keeper holds the parts of a process that holds controllers.
type Keeper struct {
	warn      io.Writer
	Hosts     *hosts.Pool
	holder    *connections.Holder
	front     *sockets // nil: nothing is published
	server    *connections.Server
	lent      lending.Loans
	Lenders   *lending.Processes // those that hold controllers for this process
	Ended     chan struct{}      // a lender or a controller has ended since the last receive
	borrowers *lending.Processes // those for which this process holds controllers
	forget    func()             // ends the reports on SIGUSR1

	answerTime time.Duration // time for a lender's answer; 0: no limit but that of Info
	lookTime   time.Duration // interval at which lenders are queried; 0: lending.LookInterval

	mu   sync.Mutex       // guards the fields below
	gone map[string]error // controllers that ended in this process, until the next call of Gone
}

// Start starts a keeper without controllers.
func Start(warn io.Writer, noPublish bool) (*Keeper, error) {
	polling, err := processors.ParsePolling("auto")
	if err != nil {
		return nil, err
	}
	k := &Keeper{warn: warn, Hosts: &hosts.Pool{Warn: warn}, Ended: make(chan struct{}, 1), forget: func() {}}
	k.Lenders = lending.NewProcesses(func(*connections.Process) { k.wake() })
	k.borrowers = lending.NewProcesses(k.takeBack)
	c := connections.Config{
		Dir: connections.RunDir(), Connector: connections.Multipath{}, Addresses: k.Hosts.Addresses,
		Log: func(line string) { fmt.Fprintln(k.warn, "nvmeof:", line) }, Ended: k.noteGone,
	}
	if !noPublish {
		front := &sockets{dir: c.Dir, polling: polling, log: c.Log, leave: make(chan struct{}), servers: map[string]*server{}}
		k.forget = signals.On(unix.SIGUSR1, front.logCounters)
		c.FrontEnd, k.front = front, front
	}
	k.holder = connections.New(c)
	return k, nil
}

// wake signals on Ended that something has ended.
func (k *Keeper) wake() {
	select {
	case k.Ended <- struct{}{}:
	default:
	}
}

// noteGone records that a controller has ended. Another controller may get its name soon.
func (k *Keeper) noteGone(name string, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone == nil {
		k.gone = map[string]error{}
	}
	k.gone[name] = why
	k.wake()
}

// Gone returns the controllers that ended in this process since the last call, by name, with the reasons why they were
// given up; nil: disconnected on request. A caller that connects and records the name must call Gone in between, since
// an earlier controller may have had that name.
func (k *Keeper) Gone() map[string]error {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := k.gone
	k.gone = nil
	return gone
}

// Measure returns the measures of the requests to all subsystems.
func (k *Keeper) Measure() []connections.Measured { return k.holder.Measure() }

// NBD returns the statistics of the clients of all disks.
func (k *Keeper) NBD() nbd.Stats {
	if k.front == nil {
		return nbd.Stats{}
	}
	return k.front.stats()
}

// Serve starts to answer requests of other processes.
func (k *Keeper) Serve() (err error) {
	k.server, err = connections.Serve(k.holder, connections.Services{
		Connect: func(ctx context.Context, options map[string]string, borrower *connections.Process) (string, error) {
			h, err := fabricoptions.Parse(options)
			if err != nil {
				return "", err
			}
			return k.connect(ctx, h, borrower)
		},
		Discover: func(ctx context.Context, options map[string]string) ([]byte, error) {
			return discover.ForOthers(ctx, k.Hosts, options)
		},
		Recall: k.recall, Devices: k.Hosts.Devices,
	})
	return err
}

// connect connects; for another process if borrower is not nil.
func (k *Keeper) connect(ctx context.Context, h *fabricoptions.Held, borrower *connections.Process) (string, error) {
	p, err := k.Hosts.Path(h)
	if err != nil {
		return "", err
	}
	if borrower != nil {
		p.Borrower = borrower.Socket
		defer k.borrowers.Follow(borrower) // after the connection is made: before, the borrower's end would not find it
	}
	ctx, cancel := context.WithTimeout(ctx, hosts.ConnectTime)
	defer cancel()
	defer hosts.PrintSilence(k.warn, p)()
	name, err := k.holder.Connect(ctx, p)
	if err != nil {
		return "", hosts.Explain(ctx, err, p)
	}
	fmt.Fprintln(k.warn, "nvmeof:", hosts.Effective(name, &p))
	return name, nil
}

// takeBack disconnects what is held for a process that has ended.
func (k *Keeper) takeBack(borrower *connections.Process) {
	names, err := k.holder.Disconnect(func(_ connections.SubsystemInfo, c connections.ControllerInfo) bool {
		return c.Borrower == borrower.Socket
	})
	for _, name := range names {
		fmt.Fprintf(k.warn, "nvmeof: %s: disconnected: the process that requested the connection has ended\n", name)
	}
	if err != nil {
		fmt.Fprintln(k.warn, "nvmeof:", err)
	}
}

// ConnectPatiently calls ConnectAnyhow until it succeeds, as long as the failure may be temporary, but no longer than
// a lost controller would be reconnected.
func (k *Keeper) ConnectPatiently(ctx context.Context, h *fabricoptions.Held, options map[string]string) (string, error) {
	for r := hosts.NewRetry(h, k.warn); ; {
		name, err := k.ConnectAnyhow(ctx, h, options)
		if err == nil || r.Late() || !connections.Passing(err) && !provider.IsNoRoute(err) {
			return name, err
		}
		if err := r.Wait(ctx, err); err != nil {
			return "", err
		}
	}
}

// Close disconnects everything, including what other processes hold for this one.
func (k *Keeper) Close() error {
	err := k.giveBack() // before lenders see the end of the server
	if k.server != nil {
		err = errors.Join(err, k.server.Close())
	}
	k.Lenders.Close()
	k.borrowers.Close()
	err = errors.Join(err, k.holder.Close(), k.Hosts.Close())
	k.forget()
	return err
}

// ConnectAnyhow connects, or lets the process connect that has the address.
func (k *Keeper) ConnectAnyhow(ctx context.Context, h *fabricoptions.Held, options map[string]string) (string, error) {
	name, err := k.connect(ctx, h, nil)
	var inUse *softroce.InUseError
	if errors.As(err, &inUse) {
		return k.connectBy(ctx, h, inUse, options)
	}
	return name, err
}

// connectBy lets the process connect that has an address.
func (k *Keeper) connectBy(ctx context.Context, h *fabricoptions.Held, inUse *softroce.InUseError, options map[string]string) (string, error) {
	lender, err := lending.LenderOf(ctx, inUse)
	if err != nil {
		return "", err
	}
	name, err := lender.Connect(ctx, options, k.server.Path())
	if err != nil {
		return "", fmt.Errorf("process %d, the RoCE endpoint of %v, does not connect: %w", lender.PID, inUse.Addr, err)
	}
	fmt.Fprintf(k.warn, "nvmeof: %s: held by process %d, the RoCE endpoint of %v\n", name, lender.PID, inUse.Addr)
	for _, ended := range k.lent.Add(lending.Loan{Lender: lender, Name: name, NQN: h.NQN, Transport: h.Transport, Borrower: k.server.Path()}) {
		k.noteGone(ended.Name, lending.ErrReplaced)
	}
	k.Lenders.Follow(lender)
	return name, nil
}

// Wait returns when ctx ends or nothing is connected any more. In the latter case the error is the reason, or nil if
// the connections were ended on request.
func (k *Keeper) Wait(ctx context.Context) error {
	idle := k.holder.Idle()
	if len(k.holder.Info().Subsystems) == 0 {
		closed := make(chan struct{})
		close(closed)
		idle = closed
	}
	var lost error
	for len(k.lent.List()) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(k.lookTime, lending.LookInterval)): // so that a process that has ended has released its address
		}
		for _, o := range k.Orphans(ctx) {
			if o.Err != nil {
				lost = fmt.Errorf("%s: %w", o.Name, o.Err)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-idle:
		return errors.Join(k.holder.Lost(), lost)
	}
}

// An Orphan is a controller that another process held for this one.
type Orphan struct {
	Name string
	Err  error // why it is not held any more; nil: disconnected on request
}

// Orphans removes and returns the loans that their lenders do not hold any more. It skips lenders that do not answer
// in time.
func (k *Keeper) Orphans(ctx context.Context) (all []Orphan) {
	asked := map[string]func(*lending.Loan) (bool, error){} // by the lender's socket
	for _, l := range k.lent.List() {
		held := asked[l.Lender.Socket]
		if held == nil {
			held = k.ask(ctx, l.Lender)
			asked[l.Lender.Socket] = held
		}
		if ctx.Err() != nil {
			break
		}
		if is, why := held(&l); !is && k.lent.Lose(l) {
			all = append(all, Orphan{l.Name, why})
		}
	}
	return all
}

// ask queries what a lender holds. The returned function is [lending.Loan.Held] at that moment.
func (k *Keeper) ask(ctx context.Context, lender *connections.Process) func(*lending.Loan) (bool, error) {
	if k.answerTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.answerTime)
		defer cancel()
	}
	now, err := lender.Info(ctx)
	return func(l *lending.Loan) (bool, error) {
		switch {
		case connections.Ended(err):
			return false, lending.ErrLenderEnded
		case err != nil: // the lender has no time or no room: it is queried again later
			return true, nil
		}
		return l.Held(&now)
	}
}

// recall disconnects those of the wanted controllers that other processes hold for this one. The next recall, or
// Close, retries those that fail.
func (k *Keeper) recall(ctx context.Context, wanted func(connections.SubsystemInfo, connections.ControllerInfo) bool) (names []string, err error) {
	var errs []error
	for _, l := range k.lent.List() {
		if !wanted(connections.SubsystemInfo{NQN: l.NQN}, connections.ControllerInfo{Name: l.Name, Transport: l.Transport}) {
			continue
		}
		_, err := k.lent.GiveBack(l, func() error {
			done, err := l.Lender.GiveBack(ctx, l.Name, l.Borrower)
			names = append(names, done...)
			return err
		})
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

// giveBack disconnects all controllers that other processes hold for this one.
func (k *Keeper) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), lending.LeaveTime)
	defer cancel()
	var errs []error
	for _, l := range k.lent.List() {
		_, err := k.lent.GiveBack(l, func() error {
			_, err := l.Lender.GiveBack(ctx, l.Name, l.Borrower)
			return err
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
