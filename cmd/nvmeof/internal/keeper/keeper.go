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

// A Keeper is what a process that holds controllers consists of.
type Keeper struct {
	warn      io.Writer
	Hosts     *hosts.Pool
	holder    *connections.Holder
	front     *sockets // nil: nothing is published
	server    *connections.Server
	lent      lending.Loans
	Lenders   *lending.Processes // that hold controllers for this one
	Ended     chan struct{}      // a lender has, or a controller, since it was last read
	borrowers *lending.Processes // for which this one holds controllers
	forget    func()             // ends the reports on SIGUSR1

	answerTime time.Duration // that a lender has for an answer; 0: no other than Info gives it
	lookTime   time.Duration // after which lenders are asked again; 0: lending.LookInterval

	mu   sync.Mutex       // guards what follows
	gone map[string]error // controllers that have ended here, until Gone is called
}

// Start starts one that holds nothing yet.
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

// wake says that something has ended.
func (k *Keeper) wake() {
	select {
	case k.Ended <- struct{}{}:
	default:
	}
}

// noteGone notes that a controller has ended, of which another one may have the name soon.
func (k *Keeper) noteGone(name string, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone == nil {
		k.gone = map[string]error{}
	}
	k.gone[name] = why
	k.wake()
}

// Gone are the controllers that have ended here since it was last called, by name, with why they were given up; nil:
// somebody had them disconnected. Who connects and notes the name calls it in between, since another one may have
// had that.
func (k *Keeper) Gone() map[string]error {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := k.gone
	k.gone = nil
	return gone
}

// Measure is what the requests to all subsystems came to.
func (k *Keeper) Measure() []connections.Measured { return k.holder.Measure() }

// NBD is what clients of the disks did.
func (k *Keeper) NBD() nbd.Stats {
	if k.front == nil {
		return nbd.Stats{}
	}
	return k.front.stats()
}

// Serve lets others find the process.
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

// connect connects, for another process where borrower is not nil.
func (k *Keeper) connect(ctx context.Context, h *fabricoptions.Held, borrower *connections.Process) (string, error) {
	p, err := k.Hosts.Path(h)
	if err != nil {
		return "", err
	}
	if borrower != nil {
		p.Borrower = borrower.Socket
		defer k.borrowers.Follow(borrower) // once it is connected, or it would not be found at the borrower's end
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

// ConnectPatiently is ConnectAnyhow for as long as what stands in the way may pass by
// itself, but no longer than for a controller that was lost.
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

// Close disconnects everything, also what others hold for this process.
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

// ConnectAnyhow connects, or lets who can.
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

// Wait returns when ctx ends, or when nothing is connected any more: then why, if that
// was by nobody's wish.
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
		case <-time.After(cmp.Or(k.lookTime, lending.LookInterval)): // so that one that has ended has left its address
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

// An Orphan is a controller that another process has held for this one.
type Orphan struct {
	Name string
	Err  error // why it does not hold it any more; nil: somebody had it disconnected
}

// Orphans forgets the controllers that others have held for this process and hold no more. Of a
// lender that does not answer in time it says nothing.
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

// ask asks a lender what it holds. What it returns is [lending.Loan.Held] as of now.
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
		case err != nil: // it has no time or no room: it is asked again
			return true, nil
		}
		return l.Held(&now)
	}
}

// recall disconnects those of the wanted controllers that others hold for us. One that
// could not be disconnected is tried again by the next recall, or at the end.
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

// giveBack disconnects what others hold for us.
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
