package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// A losable device is one that a test can take away: its listeners say so.
type losable struct {
	rdmatransport.Device
	lost chan struct{}
}

func (d *losable) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	l, err := d.Device.Listen(at)
	return &losableListener{l, d.lost}, err
}

type losableListener struct {
	rdmatransport.Listener
	lost chan struct{}
}

func (l *losableListener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the call
		select {
		case <-l.lost:
			cancel(rdmatransport.ErrDeviceLost)
		case <-ctx.Done():
		}
	}()
	r, err := l.Listener.Accept(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, rdmatransport.ErrDeviceLost) {
		return nil, cause
	}
	return r, err
}

// A comingDevice stands for an RDMA device that comes and goes.
type comingDevice struct {
	t      *testing.T
	errOut *output
	opened chan *losable

	mu     sync.Mutex
	absent bool
}

// set says whether the device is there.
func (c *comingDevice) set(there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = !there
}

func (c *comingDevice) open(p *place) (rdmatransport.Device, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.absent {
		return nil, &verbs.NoDeviceError{Addr: p.addrs[0].Addr()}
	}
	dev, err := provider.Open(provider.Softroce, p.addrs[0].Addr(), provider.Config{Shards: 1, Warn: func(string) {}})
	if err != nil {
		return nil, err
	}
	d := &losable{dev, make(chan struct{})}
	c.opened <- d
	return d, nil
}

// next is the device that is opened next.
func (c *comingDevice) next() *losable {
	c.t.Helper()
	select {
	case d := <-c.opened:
		return d
	case <-time.After(20 * time.Second):
		c.t.Fatalf("no device is opened:\n%s", c.errOut)
	}
	return nil
}

// TestDeviceComesAndGoes: a target waits for a device that is not there, and serves
// again when one that was lost has come back, with the same namespace and its data.
func TestDeviceComesAndGoes(t *testing.T) {
	const addr = "127.77.0.1"
	f := &targetFlags{listen: []string{addr}, nqn: testNQN, exports: []string{"mem:1MiB"}, transport: provider.Verbs, shards: 1, allowAnyHost: true}
	out, errOut := newOutput(), newOutput()
	log, err := newLog("json", "info", errOut)
	if err != nil {
		t.Fatal(err)
	}
	c := &comingDevice{t: t, errOut: errOut, opened: make(chan *losable, 10), absent: true}
	s := &service{flags: f, log: log, out: out, device: c.open}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, []netip.AddrPort{netip.MustParseAddrPort(addr + ":4420")}) }()
	errOut.await(t, "no RDMA device has the address "+addr)
	c.set(true)
	d := c.next()
	out.await(t, "nvme connect")
	at := []string{"-t", "rdma", "-a", addr, "-n", testNQN, "--start-block", "3", "--block-count", "0", "--data-size", "512"}
	data := []byte(strings.Repeat("kept", 128))
	commandIn(t.Context(), data, append([]string{"write"}, at...)...).want(t, 0)

	c.set(false)
	close(d.lost)
	errOut.await(t, "not listening any more")
	c.set(true)
	c.next()
	read := append([]string{"read"}, at...)
	o := command(t, read...)
	for deadline := time.Now().Add(20 * time.Second); o.err != nil && time.Now().Before(deadline); o = command(t, read...) {
		time.Sleep(50 * time.Millisecond) // the device is open, and about to listen
	}
	if o.want(t, 0); o.out != string(data) {
		t.Error("the data is not what was written")
	}
	stop()
	if err := errors.Join(<-ended, s.close()); err != nil {
		t.Error(err)
	}
}

// TestSeveralAddresses: they are ways to one subsystem, whose controllers have
// identifiers of their own and whose discovery log has them all, in order.
func TestSeveralAddresses(t *testing.T) {
	const second = "127.77.0.2"
	s := startTarget(t, "--listen", second, "--export", "mem:1MiB", "--allow-any-host")
	s.out.await(t, "-a "+second)
	s.out.await(t, "-a "+s.addr)
	ids := map[string]bool{}
	for _, addr := range []string{s.addr, second} {
		o := command(t, "id-ctrl", "-t", "rdma", "-a", addr, "-n", testNQN).want(t, 0)
		_, id, _ := strings.Cut(o.out, "cntlid")
		id, _, _ = strings.Cut(id, "\n")
		ids[id] = true
	}
	if len(ids) != 2 {
		t.Errorf("controller identifiers %v: two are the same", ids)
	}
	at := func(addr string) []string {
		return []string{"-t", "rdma", "-a", addr, "-n", testNQN, "--start-block", "3", "--block-count", "0", "--data-size", "512"}
	}
	data := []byte(strings.Repeat("same", 128))
	commandIn(t.Context(), data, append([]string{"write"}, at(second)...)...).want(t, 0)
	if o := command(t, append([]string{"read"}, at(s.addr)...)...).want(t, 0); o.out != string(data) {
		t.Error("what was written at one address is not read at the other")
	}
	o := command(t, "discover", "-t", "rdma", "-a", second).want(t, 0, "traddr:  "+s.addr+"\n", "traddr:  "+second+"\n", "Records 3")
	if strings.LastIndex(o.out, s.addr) > strings.LastIndex(o.out, second) {
		t.Errorf("the addresses are not in the order in which they were named:\n%s", o.out)
	}
	command(t, "target", "--listen", second, "--listen", second, "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host").
		want(t, exitUsage, "there twice")
}

// TestWildcard: which places the addresses of a machine make.
func TestWildcard(t *testing.T) {
	addrs := []string{"127.0.0.1", "::1", "192.0.2.1", "192.0.2.2", "198.51.100.7", "2001:db8::1", "fe80::1"}
	owners := map[string]string{"192.0.2.1": "rxe0", "192.0.2.2": "rxe0", "2001:db8::1": "rxe0"}
	all := func() (out []netip.Addr, _ error) {
		for _, a := range addrs {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	owner := func(a netip.Addr) (string, error) {
		if o := owners[a.String()]; o != "" {
			return o, nil
		}
		return "", errors.New("no RDMA device")
	}
	for _, c := range []struct {
		at, transport, served string
		want                  []string
	}{
		{"0.0.0.0:4420", "auto", "", []string{"verbs 192.0.2.1:4420 192.0.2.2:4420", "softroce 198.51.100.7:4420"}},
		{"0.0.0.0:4420", "verbs", "", []string{"verbs 192.0.2.1:4420 192.0.2.2:4420"}},
		{"0.0.0.0:7", "softroce", "192.0.2.2", []string{"softroce 192.0.2.1:7", "softroce 198.51.100.7:7"}},
		{"[::]:4420", "auto", "", []string{"verbs [2001:db8::1]:4420"}},
		{"[::]:4420", "auto", "2001:db8::1", nil},
	} {
		w := &wildcard{
			service: &service{flags: &targetFlags{transport: c.transport}}, at: netip.MustParseAddrPort(c.at), served: map[netip.Addr]bool{}, rdma: map[netip.Addr]bool{},
		}
		if c.served != "" {
			w.served[netip.MustParseAddr(c.served)] = true
		}
		places, err := w.scan(all, owner)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range places {
			line := p.transport
			for _, a := range p.addrs {
				line += " " + a.String()
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s with %s, %q served: %q, want %q", c.at, c.transport, c.served, got, c.want)
		}
		away := func(netip.Addr) (string, error) { return "", errors.New("no RDMA device") }
		places, _ = w.scan(all, away)
		for _, p := range places {
			if c.transport == "auto" && owners[p.addrs[0].Addr().String()] != "" {
				t.Errorf("%v becomes an address of %s while its RDMA device is away", p.addrs[0], p.transport)
			}
		}
	}
}
