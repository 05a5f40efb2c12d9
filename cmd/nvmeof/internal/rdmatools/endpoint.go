package rdmatools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	// stepTimeout is how long the other side may take for one step.
	stepTimeout = 30 * time.Second
	// longestSleep is the interval at which a sleeping endpoint checks whether it is to end.
	longestSleep = 500 * time.Millisecond
	// spin is how long an endpoint polls without events before it sleeps. alone is how long it does so before it starts
	// to yield its processor between polls, since the other side of the test may need it.
	spin  = 500 * time.Microsecond
	alone = 20 * time.Microsecond
	// leave is how long a test still answers packets of the other side's disconnect.
	leave = 200 * time.Millisecond
	// unlimited is the limit of waits that may take any time: for the first client, or for a measurement by the other
	// side.
	unlimited = -1
)

// An endpoint is a device with one completion queue, which is driven by the caller that waits for something. All of
// its methods must be called from that one goroutine.
type endpoint struct {
	dev  rdmatransport.Device
	dom  rdmatransport.Domain
	cq   rdmatransport.CompletionQueue
	addr netip.Addr
	say  io.Writer // receives warnings

	ctx    context.Context
	asleep func() bool    // stops the wake-up at the end of ctx
	calls  sync.WaitGroup // of blocking
	events bool           // sleep at once
	turns  int
	got    [64]rdmatransport.Completion
	conns  map[rdmatransport.QPN]*conn
}

// newEndpoint makes an endpoint, and becomes the owner of the device.
func newEndpoint(ctx context.Context, dev rdmatransport.Device, addr netip.Addr, events bool, say io.Writer) (*endpoint, error) {
	e := &endpoint{dev: dev, addr: addr, say: say, ctx: ctx, events: events || runtime.NumCPU() == 1, conns: map[rdmatransport.QPN]*conn{}}
	var err error
	if e.cq, err = dev.NewCompletionQueue(rdmatransport.CQConfig{}); err == nil {
		e.dom, err = dev.NewDomain()
	}
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	e.asleep = context.AfterFunc(ctx, e.cq.Wake) // at most until close
	return e, nil
}

// close first answers the remaining packets of the other side's disconnect.
func (e *endpoint) close() error {
	for until := time.Now().Add(leave); time.Now().Before(until); {
		e.turn()
		e.sleep(leave / 10)
	}
	e.asleep()
	e.calls.Wait() // one may be about to wake the queue
	return e.dev.Close()
}

// turn polls once, and reports whether there was any progress.
func (e *endpoint) turn() bool {
	n := e.cq.Poll(e.got[:])
	for _, c := range e.got[:n] {
		if to := e.conns[c.QPN]; to != nil {
			to.completed(c)
		}
	}
	e.cq.Flush()
	if e.turns++; e.turns%64 == 0 {
		runtime.Gosched() // non-blocking system calls in a loop are never preempted otherwise
	}
	return n > 0 || e.cq.Busy()
}

// A wait is for one action of the other side.
type wait struct {
	e        *endpoint
	what     string
	maxSleep time.Duration // the longest sleep; 0: longestSleep
	limit    time.Duration // 0: stepTimeout; unlimited: none
	began    int64         // by the endpoint's clock; 0: not yet
	moved    int64
}

// turn drives the endpoint, and sleeps if there is no progress. It fails when the limit is exceeded or the context has
// ended.
func (w *wait) turn() error {
	e := w.e
	moved := e.turn()
	now := e.cq.Now()
	if w.began == 0 {
		w.began, w.moved = now, now
	}
	if moved {
		w.moved = now
		return nil
	}
	if idle := now - w.moved; !e.events && idle < int64(spin) {
		if idle > int64(alone) {
			yield()
		}
		return nil
	}
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	limit := w.limit
	if limit == 0 {
		limit = stepTimeout
	}
	if limit != unlimited && now-w.began > int64(limit) {
		return fmt.Errorf("waited %v for %s", limit, w.what)
	}
	if w.maxSleep > 0 {
		e.sleep(w.maxSleep)
	} else {
		e.sleep(longestSleep)
	}
	return nil
}

// sleep waits for an event, until the device has work to do by itself, but at most for d.
func (e *endpoint) sleep(d time.Duration) {
	sleep := int64(d)
	if due := e.cq.Due(); due >= 0 {
		sleep = min(sleep, due)
	}
	if sleep > 0 {
		e.cq.Wait(sleep)
	}
}

// yield yields the processor to another thread that is ready to run (sched_yield(2)).
func yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// blocking runs a call that blocks, and drives the endpoint meanwhile. The call must end with its context, which has
// the limit.
func (e *endpoint) blocking(limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	if limit != unlimited {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, limit)
		defer end()
	}
	done := make(chan error, 1)
	e.calls.Go(func() { // ends with the call; close waits for it
		done <- call(ctx)
		e.cq.Wake()
	})
	var gaveUp error
	for w := (wait{e: e, limit: unlimited}); ; {
		select {
		case err := <-done:
			return errors.Join(gaveUp, err)
		default:
		}
		if gaveUp != nil { // the device must be driven until the call ends
			e.turn()
			e.sleep(time.Millisecond)
		} else if gaveUp = w.turn(); gaveUp != nil {
			cancel()
		}
	}
}

// params returns the parameters of a connection, with the maximum of all retries.
func (e *endpoint) params(initiatorDepth, responderResources int, tos uint8) rdmatransport.ConnParams {
	a := e.dev.Attrs()
	return rdmatransport.ConnParams{
		InitiatorDepth:     min(initiatorDepth, a.MaxReadsOut),
		ResponderResources: min(responderResources, a.MaxReadsIn),
		RetryCount:         7, RNRRetryCount: 7, TrafficClass: tos,
	}
}

// accept waits for a client and connects it to a new queue pair.
func (e *endpoint) accept(l rdmatransport.Listener, limit time.Duration, depth depths) (*conn, error) {
	var request rdmatransport.ConnRequest
	err := e.blocking(limit, func(ctx context.Context) (err error) {
		request, err = l.Accept(ctx)
		return err
	})
	if err != nil {
		if e.ctx.Err() != nil {
			err = context.Cause(e.ctx)
		}
		return nil, fmt.Errorf("no client: %w", err)
	}
	c, err := e.newConn(depth)
	if err != nil {
		return nil, errors.Join(err, request.Reject(nil))
	}
	p := e.params(request.InitiatorDepth(), request.ResponderResources(), 0)
	if err := request.Accept(c.qp, p); err != nil {
		c.close()
		return nil, fmt.Errorf("accept %v: %w", request.RemoteAddr(), err)
	}
	return c, nil
}

// A call holds the parameters of a client's connection.
type call struct {
	to    netip.AddrPort
	reads int // RDMA READs and atomics in flight
	tos   uint8
	tries int // number of attempts if no server listens on the port
}

// betweenTries is the delay between attempts while the server starts to listen again, which perftest's does for each
// connection.
const betweenTries = 100 * time.Millisecond

// silence is the time without an answer after which a client prints a message.
const silence = 2 * time.Second

func (e *endpoint) dial(to call, depth depths) (*conn, error) {
	silent := time.AfterFunc(silence, func() { // at most until the dial ends
		fmt.Fprintf(e.say, "nvmeof: no connection to %v after %v; still trying: does the other end run there, and do UDP packets to port 4791 arrive, also large ones?\n", to.to, silence)
	})
	defer silent.Stop()
	for try := 1; ; try++ {
		c, err := e.newConn(depth)
		if err != nil {
			return nil, err
		}
		err = e.blocking(stepTimeout, func(ctx context.Context) error {
			_, err := e.dev.Connect(ctx, c.qp, to.to, e.params(to.reads, to.reads, to.tos))
			return err
		})
		if err == nil {
			return c, nil
		}
		c.close()
		var refused *rdmatransport.RejectError
		nobody := errors.As(err, &refused) && refused.Reason == rdmatransport.RejectInvalidServiceID
		if e.ctx.Err() != nil {
			return nil, context.Cause(e.ctx)
		}
		if !nobody || try >= to.tries {
			return nil, &failure.Connect{Err: fmt.Errorf("connect to %v: %w%s", to.to, err, remedy(err, nobody))}
		}
		if err := e.pause(betweenTries); err != nil {
			return nil, err
		}
	}
}

// remedy says what to check when a server cannot be reached.
func remedy(err error, nobody bool) string {
	switch {
	case nobody:
		return "; start the other end there first, with the same -p"
	case errors.Is(err, rdmatransport.ErrUnreachable):
		return "; is the address right, does the other end run there, and is UDP port 4791 open?"
	}
	return ""
}

// pause drives the endpoint for some time.
func (e *endpoint) pause(d time.Duration) error {
	return e.blocking(stepTimeout, func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}
