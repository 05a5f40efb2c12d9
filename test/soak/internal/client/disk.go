package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

type kind int

const (
	read kind = iota
	write
	flush
)

// A request is a request of a batch.
type request struct {
	kind   kind
	offset int64
	data   []byte
	fua    bool

	first  int      // block
	floors []uint64 // read: the oldest number that each block may have
	number []uint64 // write: of each block

	err  error
	took time.Duration
}

// A disk executes batches. It is used by one goroutine; when do returns, all requests have completed.
type disk interface {
	do(batch []request)
	close() error
}

// A library is a connection of this project's host library.
type library struct {
	closers []func() error
	sub     *multipath.Subsystem
}

func (l *library) close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	return errors.Join(errs...)
}

// connect connects and waits until a path is live.
func connect(spec *Spec, event func(multipath.Event)) (l *library, err error) {
	l = &library{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	device, err := softroce.Open(softroce.Config{Addr: spec.Addr})
	if err != nil {
		return l, err
	}
	l.closers = append(l.closers, device.Close)
	identity, err := nvmeof.ParseHostIdentity(string(spec.HostNQN), spec.HostID)
	if err != nil {
		return l, err
	}
	h, err := host.New(host.Config{Device: device, Identity: identity})
	if err != nil {
		return l, err
	}
	l.closers = append(l.closers, h.Close)
	cfg := multipath.Config{NQN: spec.NQN, Wait: true, Event: event}
	if spec.Policy != "" {
		if cfg.Policy, err = multipath.ParsePolicy(spec.Policy); err != nil {
			return l, err
		}
	}
	options := host.Options{KeepAliveTmo: spec.Timeout, NrIOQueues: 1}
	for _, k := range []struct {
		to   *auth.Key
		text string
	}{{&options.DHCHAPSecret, spec.Key}, {&options.DHCHAPCtrlSecret, spec.CtrlKey}} {
		if k.text == "" {
			continue
		}
		if *k.to, err = auth.ParseKey(k.text); err != nil {
			return l, err
		}
	}
	for _, p := range spec.Paths {
		options.Traddr = p
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: h, Options: options, Timers: multipath.Timers{ReconnectDelay: 2 * time.Second}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if l.sub, err = multipath.Connect(ctx, cfg); err != nil {
		return l, err
	}
	l.closers = append(l.closers, l.sub.Close)
	return l, nil
}

// open opens a namespace and checks that it is as the specification says.
func (l *library) open(s *Space) (*multipath.Namespace, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	n, err := l.namespace(ctx, capsule.NSID(s.NSID))
	if err != nil {
		return nil, err
	}
	if size := int64(s.Blocks) * int64(s.BlockSize); n.Size() != size {
		return nil, fmt.Errorf("namespace %d has %d bytes, want %d", s.NSID, n.Size(), size)
	}
	l.closers = append(l.closers, n.Close)
	return n, nil
}

// namespace opens a namespace as soon as a live path has it: the path that Connect returned for may have been lost
// again.
func (l *library) namespace(ctx context.Context, id capsule.NSID) (*multipath.Namespace, error) {
	for {
		n, err := l.sub.Namespace(ctx, id)
		if err == nil || ctx.Err() != nil {
			return n, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// A queueDisk executes batches on a queue.
type queueDisk struct {
	q *multipath.Queue
}

func (d *queueDisk) close() error { return d.q.Close() }

func (d *queueDisk) do(batch []request) {
	began := time.Now()
	rs := make([]backend.Request, len(batch))
	for i := range batch {
		r := &batch[i]
		rs[i] = backend.Request{Tag: uint64(i), Op: backend.OpFlush}
		if r.kind != flush {
			rs[i] = backend.Request{Tag: uint64(i), Op: backend.OpRead, Offset: r.offset, Length: int64(len(r.data)), Buf: r.data}
		}
		if r.kind == write {
			rs[i].Op, rs[i].FUA = backend.OpWrite, r.fua
		}
	}
	results := make([]backend.Result, len(batch))
	for sent, ended := 0, 0; ended < len(batch); {
		sent += d.q.Submit(rs[sent:])
		n := d.q.Poll(results)
		for _, r := range results[:n] {
			batch[r.Tag].err, batch[r.Tag].took = r.Err, time.Since(began)
		}
		if ended += n; n > 0 || ended == len(batch) {
			continue
		}
		if err := d.q.Wait(); err != nil {
			for i := range batch {
				batch[i].err = err
			}
			return
		}
	}
}

// A blockingDisk executes batches on goroutines, each of which does one request at a time.
type blockingDisk struct {
	n        *multipath.Namespace
	requests chan *request
	ended    chan struct{} // one for each request
	workers  sync.WaitGroup
}

func newBlockingDisk(n *multipath.Namespace, depth int) *blockingDisk {
	d := &blockingDisk{n: n, requests: make(chan *request), ended: make(chan struct{})}
	for range depth {
		d.workers.Go(func() {
			for r := range d.requests {
				d.one(r)
				d.ended <- struct{}{}
			}
		})
	}
	return d
}

func (d *blockingDisk) close() error {
	close(d.requests)
	d.workers.Wait()
	return nil
}

// do executes a batch of at most as many requests as there are goroutines.
func (d *blockingDisk) do(batch []request) {
	for i := range batch {
		d.requests <- &batch[i]
	}
	for range batch {
		<-d.ended
	}
}

func (d *blockingDisk) one(r *request) {
	began := time.Now()
	switch r.kind {
	case read:
		_, r.err = d.n.ReadAt(r.data, r.offset)
	case write:
		_, r.err = d.n.WriteAt(r.data, r.offset)
		if r.fua && r.err == nil {
			r.err = d.n.Flush()
		}
	case flush:
		r.err = d.n.Flush()
	}
	r.took = time.Since(began)
}
