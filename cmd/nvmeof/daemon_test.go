package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// A losable device is one that a test can take away: its listeners report the loss.
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

// set sets whether the device is present.
func (c *comingDevice) set(there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = !there
}

func (c *comingDevice) open(_ string, addr netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.absent {
		return nil, &verbs.NoDeviceError{Addr: addr}
	}
	dev, err := provider.Open(provider.Softroce, addr, cfg)
	if err != nil {
		return nil, err
	}
	d := &losable{dev, make(chan struct{})}
	c.opened <- d
	return d, nil
}

// next returns the next device that is opened.
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

// flagDaemon returns a target of flags at an address, whose machine a test may replace.
func flagDaemon(t *testing.T, f *targetcommand.Flags) (d *targetcommand.Daemon, out, errOut *output) {
	t.Helper()
	f.NQN, f.Shards, f.AllowAnyHost, f.Polling = testNQN, 1, true, "auto"
	doc, err := f.Document()
	if err != nil {
		t.Fatal(err)
	}
	out, errOut = newOutput(), newOutput()
	log, err := targetcommand.NewLog("json", "info", errOut, false)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	setenv(t, "NVMEOF_SOCKET", socket)
	return &targetcommand.Daemon{Document: doc, Flags: f, Socket: socket, Log: log, Out: out, ErrOut: errOut}, out, errOut
}

// startDaemon runs the target until the test ends, or until stop, which checks that it ends without an error.
func startDaemon(t *testing.T, d *targetcommand.Daemon, on targetcommand.Machine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, on) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestDeviceComesAndGoes checks that a target waits for an absent device, and serves again when a lost device has
// returned, with the same namespace and its data.
func TestDeviceComesAndGoes(t *testing.T) {
	beside(t)
	const addr = "127.77.0.1"
	s, out, errOut := flagDaemon(t, &targetcommand.Flags{Listen: []string{addr}, Exports: []string{"mem:1MiB"}, Transport: provider.Verbs})
	c := &comingDevice{t: t, errOut: errOut, opened: make(chan *losable, 10), absent: true}
	stop := startDaemon(t, s, targetcommand.Machine{Device: c.open})
	errOut.await(t, "no RDMA device has the address "+addr)
	c.set(true)
	d := c.next()
	out.await(t, "nvme connect")
	at := []string{"-t", "rdma", "-a", addr, "-n", testNQN, "--start-block", "3", "--block-count", "0", "--data-size", "512"}
	data := []byte(strings.Repeat("kept", 128))
	commandIn(t.Context(), t, data, append([]string{"write"}, at...)...).want(t, 0)

	c.set(false)
	close(d.lost)
	errOut.await(t, "listener ended")
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
	if n := strings.Count(out.String(), "nvme connect"); n != 1 {
		t.Errorf("it prints %d times how to connect:\n%s", n, out)
	}
}

// TestWildcard checks that --listen 0.0.0.0 listens at each address of the machine, including ones configured later.
func TestWildcard(t *testing.T) {
	beside(t)
	first, second := netip.MustParseAddr(loopbackAddress()), netip.MustParseAddr(loopbackAddress())
	s, out, _ := flagDaemon(t, &targetcommand.Flags{Listen: []string{"0.0.0.0"}, Exports: []string{"mem:1MiB"}, Transport: provider.Softroce})
	var mu sync.Mutex
	has := []netip.Addr{first}
	startDaemon(t, s, targetcommand.Machine{Addresses: func() ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(has), nil
	}})
	out.await(t, "nvme connect -t rdma -a "+first.String())
	command(t, "list", "-t", "rdma", "-a", first.String()).want(t, 0, "1.05  MB")
	command(t, "ls").want(t, 0, "    1 0.0.0.0:4420\n      "+first.String()+":4420, port-id ")
	mu.Lock()
	has = append(has, second)
	mu.Unlock()
	out.await(t, "nvme connect -t rdma -a "+second.String())
	command(t, "discover", "-t", "rdma", "-a", second.String()).want(t, 0, "traddr:  "+first.String()+"\n", "traddr:  "+second.String()+"\n", "Records 3")
	command(t, "listener", "list").want(t, 0, "0.0.0.0:4420")
	command(t, "listener", "remove", "1").want(t, 0)
	command(t, "listener", "add", "3", "0.0.0.0:4421").want(t, 0, "add listener 3")
	var log struct {
		Records []struct {
			Traddr, Trsvcid string
			Portid          int
		}
	}
	o := command(t, "discover", "-t", "rdma", "-a", first.String(), "-s", "4421", "-o", "json").want(t, 0)
	if err := json.Unmarshal([]byte(o.out), &log); err != nil || len(log.Records) != 3 {
		t.Fatalf("%v\n%s", err, o.out)
	}
	tree := command(t, "ls").want(t, 0, "    3 0.0.0.0:4421\n") // no address waits any more for the previous one to be closed
	for _, r := range log.Records {
		tree.want(t, 0, fmt.Sprintf("      %s:%s, port-id %d\n", r.Traddr, r.Trsvcid, r.Portid))
	}
	command(t, "ana-group", "set", "1", "--listener", "3", "--state", "non-optimized").want(t, 0)
	saved := filepath.Join(t.TempDir(), "target.yaml")
	command(t, "target", "save", saved).want(t, 0)
	command(t, "target", "check", saved).want(t, 0, "is valid: 1 listener(s)")
}

// TestSeveralAddresses checks that several addresses are paths to one subsystem: their controllers have different IDs,
// and the discovery log lists all of them in order.
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
	commandIn(t.Context(), t, data, append([]string{"write"}, at(second)...)...).want(t, 0)
	if o := command(t, append([]string{"read"}, at(s.addr)...)...).want(t, 0); o.out != string(data) {
		t.Error("what was written at one address is not read at the other")
	}
	o := command(t, "discover", "-t", "rdma", "-a", second).want(t, 0, "traddr:  "+s.addr+"\n", "traddr:  "+second+"\n", "Records 3")
	if strings.LastIndex(o.out, s.addr) > strings.LastIndex(o.out, second) {
		t.Errorf("the addresses are not in the order in which they were named:\n%s", o.out)
	}
	command(t, "target", "--listen", second, "--listen", second, "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host").
		want(t, exitUsage, "given twice")
}
