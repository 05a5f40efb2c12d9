package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const hostileNQN = "nqn.2026-11.org.example:gremlin"

func (o *options) malices() (out []malice) {
	for _, m := range malices() {
		if o.only.MatchString(m.name) {
			out = append(out, m)
		}
	}
	return out
}

// listen runs a hostile target. It serves hosts of others, one after the other, each with the next malice, or with
// -host our own.
func listen(ctx context.Context, o options, out io.Writer) error {
	list := o.malices()
	if len(list) == 0 {
		return errors.New("no malice has such a name; -list has them all")
	}
	if o.nqn == "" {
		o.nqn = hostileNQN
	}
	h, err := newHostile(o.listen, o.nqn, o.seed)
	if err != nil {
		return err
	}
	defer h.endpoint.Close()
	if o.host {
		return h.attackHost(ctx, o, list, out)
	}
	fmt.Fprintf(out, "%s at %v, seed %d\n", o.nqn, o.listen, o.seed)
	for i := 0; ctx.Err() == nil; i++ {
		m := list[i%len(list)]
		fmt.Fprintf(out, "next: %s (%s)\n", m.name, m.does)
		h.behave()
		m.twist(h)
		if err := h.oneHost(ctx); err != nil {
			return err
		}
	}
	return nil
}

// oneHost serves until the host that connected has disconnected or sends nothing for a while.
func (h *hostile) oneHost(ctx context.Context) error {
	const quiet = 5 * time.Second
	heard, came := time.Now(), h.endpoint.Received
	for ctx.Err() == nil {
		if err := h.serve(100 * time.Millisecond); err != nil {
			return err
		}
		if n := h.endpoint.Received; n != came {
			came, heard = n, time.Now()
		}
		gone := len(h.queues) > 0
		for c := range h.queues {
			gone = gone && c.Gone
		}
		if gone || len(h.queues) > 0 && time.Since(heard) > quiet {
			return nil
		}
	}
	return nil
}

// attackHost starts a host of package host for each malice and reports how it behaved.
func (h *hostile) attackHost(ctx context.Context, o options, list []malice, out io.Writer) error {
	a, err := addressesFor(o.listen.Addr(), o.from)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-18s %-52s %8s %6s %8s %-9s %s\n", "malice", "the target", "took", "works", "heap", "verdict", "how the host ended")
	bad := 0
	for _, m := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.behave()
		m.twist(h)
		v, err := h.meet(ctx, o, a, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		verdict := "held"
		if v.fault != "" {
			verdict, bad = "BROKE", bad+1
		}
		fmt.Fprintf(out, "%-18s %-52s %8v %6d %5d KB %-9s %s\n", m.name, m.does, v.took.Round(time.Millisecond), v.works, v.heap>>10, verdict, v.how())
	}
	if bad > 0 {
		return fmt.Errorf("%d malices went beyond what is allowed", bad)
	}
	return nil
}

// A meeting is the result of a host that met a malice.
type meeting struct {
	took  time.Duration
	works int   // operations that succeeded
	heap  int64 // growth of the heap after the host has ended
	err   error
	fault string
}

func (v *meeting) how() string {
	switch {
	case v.fault != "":
		return v.fault
	case v.err != nil:
		text := v.err.Error()
		return strings.ToValidUTF8(text[:min(len(text), 160)], "")
	}
	return "without an error"
}

const (
	hostTimeout = time.Second
	// closing is how long a host may take beyond its timeouts, because the machine also does other work.
	closing = 10 * time.Second
	most    = 16 << 20 // bytes of heap that may be left
)

// meet lets one host connect while a malice is active.
func (h *hostile) meet(ctx context.Context, o options, a *addresses, m malice) (v meeting, err error) {
	before, goroutines := heap(), runtime.NumGoroutine()
	began, done := time.Now(), make(chan meeting, 1)
	go func() { // ends by the host's time-outs
		d, err := use(a, func(at netip.Addr) (*softroce.Device, error) { return softroce.Open(softroce.Config{Addr: at}) })
		if err != nil {
			done <- meeting{err: err}
			return
		}
		v := visit(ctx, o, d, m)
		if err := d.Close(); err != nil && v.fault == "" {
			v.fault = "closing the device: " + err.Error()
		}
		done <- v
	}()
	for open := true; open; {
		if err := h.serve(5 * time.Millisecond); err != nil {
			return v, err
		}
		select {
		case v = <-done:
			open = false
		default:
			if time.Since(began) > o.seconds+2*closing {
				v.fault = fmt.Sprintf("the host does not end within %v", o.seconds+2*closing)
				open = false
			}
		}
	}
	v.took = time.Since(began)
	for range 50 { // a goroutine ends a little after the code that waited for it continues
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	switch n := runtime.NumGoroutine() - goroutines; {
	case v.fault != "":
	case v.took > o.seconds+closing:
		v.fault = fmt.Sprintf("took %v", v.took.Round(time.Millisecond))
	case n > 0:
		v.fault = fmt.Sprintf("%d goroutines are left", n)
	}
	if v.heap = heap() - before; v.heap > most && v.fault == "" {
		v.fault = fmt.Sprintf("%d MiB are left", v.heap>>20)
	}
	return v, nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what the first call finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// visit discovers, connects, reads, writes and disconnects, as far as the target lets it.
func visit(ctx context.Context, o options, d *softroce.Device, m malice) (v meeting) {
	ctx, cancel := context.WithTimeout(ctx, o.seconds)
	defer cancel()
	hst, err := host.New(host.Config{Device: d, Shards: 1, Polling: nvmeof.PollNever})
	if err != nil {
		return meeting{err: err}
	}
	defer func() {
		if err := hst.Close(); err != nil && v.fault == "" {
			v.fault = "closing the host: " + err.Error()
		}
	}()
	options := host.Options{Traddr: o.listen.Addr(), Trsvcid: o.listen.Port(), Timeout: hostTimeout, KeepAliveTmo: hostTimeout, NrIOQueues: 1, QueueSize: 16, BounceMemory: 1 << 20}
	if _, err = hst.Discover(ctx, options); err != nil {
		v.err = fmt.Errorf("discover: %w", err)
	} else {
		v.works++
	}
	options.NQN = nvmeof.NQN(o.nqn)
	c, err := hst.Connect(ctx, options)
	if err != nil {
		v.err = fmt.Errorf("connect: %w", err)
		return v
	}
	v.works++
	keep := func(what string, err error) {
		if err == nil {
			v.works++
		} else if v.err == nil {
			v.err = fmt.Errorf("%s: %w", what, err)
		}
	}
	_, err = c.Namespaces(ctx)
	keep("namespaces", err)
	if n, err := c.Namespace(ctx, 1); err != nil {
		keep("namespace", err)
	} else if err := exercise(n, keep); err != nil && !m.lies {
		v.fault = err.Error()
	}
	keep("disconnect", c.Disconnect(ctx))
	return v
}

// exercise reads and writes some blocks. A Read that succeeds must return the right data.
func exercise(n *host.Namespace, keep func(string, error)) error {
	size := max(n.BlockSize(), hostileBlock)
	if size > 1<<20 {
		return nil
	}
	for i := range 4 {
		b := make([]byte, size)
		_, err := n.ReadAt(b, int64(i*size))
		keep("read", err)
		if err == nil && n.BlockSize() == hostileBlock && !bytes.Equal(b, content(capsule.LBA(i), size)) {
			return errors.New("a Read succeeded, and its data are not those of the blocks")
		}
		_, err = n.WriteAt(make([]byte, 4*size), 0)
		keep("write", err)
	}
	return nil
}
