//go:build verbs && cgo && linux && !race

package verbs_test

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

var (
	removable = flag.String("remove", "", "name of the RDMA device, which the test may remove")
	cycles    = flag.Int("cycles", 50, "how often to connect and disconnect")
)

const timeLimit = 10 * time.Second

// A node is one device with one completion queue, driven by the test's goroutine.
type node struct {
	t      *testing.T
	device rdmatransport.Device
	domain rdmatransport.Domain
	cq     rdmatransport.CompletionQueue
	mem    []byte
	region rdmatransport.MemoryRegion
	seen   []rdmatransport.Completion
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, mem: make([]byte, 1<<16)}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	n.device, err = verbs.Open(verbs.Config{Addr: netip.MustParseAddr(*addr), Shards: 2})
	must(err)
	n.domain, err = n.device.NewDomain()
	must(err)
	n.cq, err = n.device.NewCompletionQueue(rdmatransport.CQConfig{})
	must(err)
	n.region, err = n.domain.Register(n.mem, rdmatransport.AccessLocalWrite)
	must(err)
	return n
}

func (n *node) queuePair() rdmatransport.QueuePair {
	n.t.Helper()
	qp, err := n.domain.NewQueuePair(rdmatransport.QPConfig{CQ: n.cq, MaxSend: 8, MaxRecv: 8})
	if err == nil {
		err = qp.PostRecv([]rdmatransport.RecvWR{{ID: 7, SGL: []rdmatransport.SGE{{Buf: n.mem[:64], LKey: n.region.LKey()}}}})
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return qp
}

// poll reads completions.
func (n *node) poll() {
	var cs [16]rdmatransport.Completion
	n.seen = append(n.seen, cs[:n.cq.Poll(cs[:])]...)
	n.cq.Flush()
}

// turn drives both ends until done reports true.
func turn(t *testing.T, what string, done func() bool, nodes ...*node) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > timeLimit {
			t.Fatalf("%s: not within %v", what, timeLimit)
		}
		for _, n := range nodes {
			n.poll()
		}
	}
}

// join connects a to b over l.
func join(t *testing.T, a, b *node, l rdmatransport.Listener) (active, passive rdmatransport.QueuePair) {
	t.Helper()
	active, passive = a.queuePair(), b.queuePair()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	requests, connected := make(chan rdmatransport.ConnRequest, 1), make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			requests <- r
		}
	}()
	go func() {
		_, err := a.device.Connect(ctx, active, l.Addr(), rdmatransport.ConnParams{RetryCount: 7, RNRRetryCount: 7})
		connected <- err
	}()
	var err error
	turn(t, "connecting", func() bool {
		select {
		case r := <-requests:
			if err := r.Accept(passive, rdmatransport.ConnParams{}); err != nil {
				t.Fatal(err)
			}
		case err = <-connected:
			return true
		default:
		}
		return false
	}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	return active, passive
}

func (n *node) listen() rdmatransport.Listener { return n.listenAt(0) }

func (n *node) listenAt(port uint16) rdmatransport.Listener {
	n.t.Helper()
	l, err := n.device.Listen(netip.AddrPortFrom(netip.MustParseAddr(*addr), port))
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

// objects returns the number of kernel objects of each kind for the RDMA devices.
func objects(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "rdma", "resource", "show").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// passing creates the resources of a queue pair and frees them.
func (n *node) passing() {
	n.t.Helper()
	cq, err := n.device.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		n.t.Fatal(err)
	}
	domain, err := n.device.NewDomain()
	if err != nil {
		n.t.Fatal(err)
	}
	region, err := domain.Register(make([]byte, 4096), rdmatransport.AccessLocalWrite)
	if err != nil {
		n.t.Fatal(err)
	}
	qp, err := domain.NewQueuePair(rdmatransport.QPConfig{CQ: cq})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := errors.Join(qp.Close(), region.Deregister(), domain.Close(), cq.Close()); err != nil {
		n.t.Fatal(err)
	}
}

// TestCycles connects and disconnects repeatedly on the same two devices, without pauses. No connection waits for the
// end of an earlier one (TIMEWAIT), and the kernel has no more objects afterwards than after the first ones. The
// caller of the test compares the objects before and after the process.
func TestCycles(t *testing.T) {
	if *addr == "" {
		t.Skip("needs an RDMA device: -addr")
	}
	a, b := newNode(t), newNode(t)
	l := b.listen()
	for i := range 5 {
		a.cycle(b, l, i)
	}
	before := objects(t)
	for i := range *cycles {
		a.cycle(b, l, i)
		a.passing()
	}
	after := objects(t)
	for start := time.Now(); more(after, before) && time.Since(start) < timeLimit; after = objects(t) {
		a.poll()
		b.poll()
	}
	if more(after, before) {
		t.Errorf("%d cycles leave\n%safter 5 there were\n%s", *cycles, after, before)
	}
	for _, err := range []error{l.Close(), a.device.Close(), b.device.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// more reports whether there are other kinds of objects, or more of one kind. There may be fewer, since the kernel
// may have freed objects late.
func more(after, before string) bool {
	number := regexp.MustCompile(`\d+`)
	if number.ReplaceAllString(after, "") != number.ReplaceAllString(before, "") {
		return true
	}
	then := number.FindAllString(before, -1)
	for i, s := range number.FindAllString(after, -1) {
		a, err1 := strconv.Atoi(s)
		b, err2 := strconv.Atoi(then[i])
		if err1 != nil || err2 != nil || a > b {
			return true
		}
	}
	return false
}

// cycle connects to b and disconnects, from alternating ends.
func (n *node) cycle(b *node, l rdmatransport.Listener, i int) {
	n.t.Helper()
	active, passive := join(n.t, n, b, l)
	first, second, ends := active, passive, [2]*node{n, b}
	if i%2 == 1 {
		first, second, ends = passive, active, [2]*node{b, n}
	}
	n.seen, b.seen = nil, nil
	first.Disconnect()
	turn(n.t, "disconnecting", func() bool { return second.Err() != nil && len(ends[1].seen) > 0 && len(ends[0].seen) > 0 }, n, b)
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		n.t.Fatal(err)
	}
}

// TestListenAgain: a port can be listened on again as soon as its device is closed, even if it had connections.
func TestListenAgain(t *testing.T) {
	if *addr == "" {
		t.Skip("needs an RDMA device: -addr")
	}
	a := newNode(t)
	port := uint16(0)
	for range max(5, *cycles/10) {
		b := newNode(t)
		l := b.listenAt(port)
		port = l.Addr().Port()
		active, _ := join(t, a, b, l)
		if err := b.device.Close(); err != nil { // with its listener and connection
			t.Fatal(err)
		}
		if err := active.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.device.Close(); err != nil {
		t.Error(err)
	}
}

// TestRemoval removes the device during a connection.
func TestRemoval(t *testing.T) {
	if *addr == "" || *removable == "" {
		t.Skip("needs an RDMA device that may go: -addr and -remove")
	}
	a, b := newNode(t), newNode(t)
	l := b.listen()
	active, passive := join(t, a, b, l)
	remove := exec.CommandContext(t.Context(), "rdma", "link", "delete", *removable)
	if err := remove.Start(); err != nil {
		t.Fatal(err)
	}
	turn(t, "ending the queue pairs of a device that goes", func() bool { return active.Err() != nil && passive.Err() != nil }, a, b)
	for _, qp := range []rdmatransport.QueuePair{active, passive} {
		t.Logf("queue pair %d ended: %v", qp.QPN(), qp.Err())
	}
	turn(t, "flushing", func() bool { return len(a.seen) == 1 && len(b.seen) == 1 }, a, b)
	turn(t, "refusing new domains", func() bool {
		_, errA := a.device.NewDomain()
		_, errB := b.device.NewDomain()
		return errors.Is(errA, verbs.ErrRemoved) && errors.Is(errB, verbs.ErrRemoved)
	}, a, b)
	if _, err := l.Accept(t.Context()); !errors.Is(err, verbs.ErrRemoved) {
		t.Errorf("Accept: %v, want %v", err, verbs.ErrRemoved)
	}
	for _, n := range []*node{a, b} {
		if err := n.device.Close(); err != nil {
			t.Errorf("closing a device that is gone: %v", err)
		}
	}
	returned := make(chan error, 1)
	go func() { returned <- remove.Wait() }()
	select {
	case err := <-returned:
		if err != nil {
			t.Errorf("rdma link delete: %v", err)
		}
	case <-time.After(timeLimit):
		t.Error("the device cannot go: this process has it open")
	}
}
