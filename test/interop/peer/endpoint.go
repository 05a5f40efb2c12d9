package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const (
	// patience is how long anything may take that the other side must do.
	patience = 30 * time.Second
	// firstClient is how long a server waits for its client.
	firstClient = 2 * time.Minute
)

// An endpoint is a softroce device whose only completion queue runs on a
// goroutine of its own. Its methods may be called from any other.
type endpoint struct {
	dev *softroce.Device
	dom rdmatransport.Domain
	cq  rdmatransport.CompletionQueue

	calls chan func()
	stop  chan struct{}
	loop  sync.WaitGroup

	conns map[rdmatransport.QPN]*conn // the loop's
}

func open(addr netip.Addr) (*endpoint, error) {
	dev, err := softroce.Open(softroce.Config{Addr: addr})
	if err != nil {
		return nil, err
	}
	e := &endpoint{dev: dev, calls: make(chan func(), 8), stop: make(chan struct{}), conns: map[rdmatransport.QPN]*conn{}}
	if e.cq, err = dev.NewCompletionQueue(rdmatransport.CQConfig{}); err == nil {
		e.dom, err = dev.NewDomain()
	}
	if err != nil {
		dev.Close()
		return nil, err
	}
	e.loop.Go(e.run) // until close
	return e, nil
}

func (e *endpoint) run() {
	cs := make([]rdmatransport.Completion, 64)
	for {
		select {
		case <-e.stop:
			return
		case f := <-e.calls:
			f()
		default:
			e.cq.Wait(e.idle())
		}
		for n := e.cq.Poll(cs); n > 0; n = e.cq.Poll(cs) {
			for _, c := range cs[:n] {
				if to := e.conns[c.QPN]; to != nil {
					to.completed(c)
				}
			}
		}
		e.cq.Flush()
	}
}

// idle is for how long the loop may wait: not past the time at which the provider has
// to send again by itself.
func (e *endpoint) idle() int64 {
	d := e.cq.Due()
	if d < 0 {
		return int64(time.Second)
	}
	return min(d, int64(time.Second))
}

// do runs f on the loop and returns what it returns.
func (e *endpoint) do(f func() error) error {
	result := make(chan error, 1)
	e.calls <- func() { result <- f() }
	e.cq.Wake()
	return <-result
}

// close answers what the other side still sends of its disconnect, then ends.
func (e *endpoint) close() {
	time.Sleep(200 * time.Millisecond)
	close(e.stop)
	e.cq.Wake()
	e.loop.Wait()
	e.dev.Close()
}

// params are a connection's, with everything that either side can do.
func (e *endpoint) params(initiatorDepth, responderResources int) rdmatransport.ConnParams {
	a := e.dev.Attrs()
	return rdmatransport.ConnParams{
		InitiatorDepth:     min(initiatorDepth, a.MaxReadsOut),
		ResponderResources: min(responderResources, a.MaxReadsIn),
		RetryCount:         7, RNRRetryCount: 7,
	}
}

// accept waits for a client and connects it to a new queue pair.
func (e *endpoint) accept(l rdmatransport.Listener, wait time.Duration, r receives) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	request, err := l.Accept(ctx)
	if err != nil {
		return nil, fmt.Errorf("no client: %w", err)
	}
	c, err := e.newConn(r)
	if err != nil {
		return nil, err
	}
	p := e.params(request.InitiatorDepth(), request.ResponderResources())
	if err := e.do(func() error { return request.Accept(c.qp, p) }); err != nil {
		return nil, fmt.Errorf("accept %v: %w", request.RemoteAddr(), err)
	}
	return c, nil
}

// dial connects to a server, of which perftest's listens anew for each
// connection: refusals for want of a listener are tried again.
func (e *endpoint) dial(to netip.AddrPort, reads int, r receives) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := e.newConn(r)
		if err != nil {
			return nil, err
		}
		_, err = e.dev.Connect(ctx, c.qp, to, e.params(reads, reads))
		if err == nil {
			return c, nil
		}
		c.close()
		var refused *rdmatransport.RejectError
		if !errors.As(err, &refused) || refused.Reason != rdmatransport.RejectInvalidServiceID || ctx.Err() != nil {
			return nil, fmt.Errorf("connect to %v: %w", to, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
