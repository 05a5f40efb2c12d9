package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/listing"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/loopback"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// demoFlags holds the flags of the demo command.
type demoFlags struct {
	rcvbuf  int
	runtime time.Duration
	dir     string
	size    string
}

const demoNQN = "nqn.2026-11.org.example:demo"

// Command returns the command nvmeof demo.
func Command() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Demonstrate target and host on this machine in less than a minute, as an ordinary user",
		Long: `Start a target with a memory and a file namespace at one loopback address and a host
at another, both RoCEv2 endpoints over UDP. Discover, connect, list, write and verify
data, and measure each namespace in comparison with the same store without the fabric
and with plain UDP. Needs no installation.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := demo{flags: f, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr()}
			return errors.Join(d.run(cmd.Context()), d.close())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.rcvbuf, "rcvbuf", 0, "receive buffer of each socket in bytes (default: 8 MiB, as far as allowed)")
	flags.DurationVar(&f.runtime, "runtime", time.Second, "duration of each of the 24 measurements")
	flags.StringVar(&f.dir, "dir", "", "directory for the file namespace (default: one that is on a disk)")
	flags.StringVar(&f.size, "size", "128MiB", "size of each namespace")
	return cmd
}

// demo is a running demonstration.
type demo struct {
	flags       demoFlags
	out, errOut io.Writer

	size       int64 // of each namespace
	target     *target.Target
	host       *host.Host
	controller *host.Controller
	at         netip.AddrPort // of the target
	exports    []demoExport
	closers    []func() error // called in reverse order
}

// A demoExport is a namespace with its store, which is also measured directly.
type demoExport struct {
	name  string
	store backend.Store
	ns    *host.Namespace
}

func (d *demo) say(step, format string, args ...any) {
	fmt.Fprintf(d.out, "%-10s %s\n", step, fmt.Sprintf(format, args...))
}

// later adds a function to be called at the end, in reverse order.
func (d *demo) later(f func() error) { d.closers = append(d.closers, f) }

func (d *demo) close() (err error) {
	for i := len(d.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, d.closers[i]())
	}
	return err
}

func (d *demo) run(ctx context.Context) error {
	began := time.Now()
	if err := d.check(); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "NVMe over RDMA with no RDMA hardware, no root and no kernel module.")
	fmt.Fprintln(d.out)
	processors.Need(2, nvmeof.PollAdaptive) // one loop of the target, one of the host
	for _, step := range []func(context.Context) error{d.start, d.discover, d.connect, d.list, d.writeAndVerify} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	results, err := d.measure(ctx)
	if err != nil {
		return err
	}
	results.print(d.out)
	if err := d.controller.Disconnect(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nDone in %.0f s. To connect a Linux host, type here, and then there:\n", time.Since(began).Seconds())
	addr := netip.AddrPortFrom(outsideAddr(), nvmeof.DefaultPort)
	fmt.Fprintf(d.out, "  nvmeof target --listen %v --nqn %s --export mem:1GiB --allow-any-host\n", addr.Addr(), demoNQN)
	fmt.Fprintf(d.out, "  %s\n", nvmecli.ConnectLine(addr, demoNQN))
	return nil
}

func (d *demo) check() (err error) {
	if d.size, err = nvmeof.ParseSize(d.flags.size); err != nil {
		return failure.Usagef("--size: %v", err)
	}
	if d.size < maxLoad || d.size%chunk != 0 {
		return failure.Usagef("--size %s: want whole mebibytes, at least %d MiB", d.flags.size, maxLoad>>20)
	}
	return nil
}

// start starts target and host, each at a free address of 127/8.
func (d *demo) start(context.Context) error {
	if err := d.openStores(); err != nil {
		return err
	}
	open := func(a netip.Addr) (*softroce.Device, error) {
		return softroce.Open(softroce.Config{Addr: a, ReceiveBuffer: d.flags.rcvbuf})
	}
	td, err := open(loopback.First())
	if loopback.IsTaken(err) {
		td, err = loopback.Open(loopback.First(), open)
	}
	if err != nil {
		return err
	}
	d.later(td.Close)
	hd, err := loopback.Open(td.Addr(), open)
	if err != nil {
		return err
	}
	d.later(hd.Close)
	for _, w := range td.Warnings() { // those of the host's device are the same
		d.say("note", "%s", w)
	}
	if err := d.startTarget(td); err != nil {
		return err
	}
	if d.host, err = host.New(host.Config{Device: hd}); err != nil {
		return err
	}
	d.later(d.host.Close)
	d.say("start", "target %v, host %v, both RoCEv2 endpoints on UDP port 4791", d.at, hd.Addr())
	return nil
}

func (d *demo) startTarget(device *softroce.Device) (err error) {
	if d.target, err = target.New(target.Config{Device: device}); err != nil {
		return err
	}
	d.later(d.target.Close)
	s, err := d.target.AddSubsystem(target.SubsystemConfig{NQN: demoNQN})
	if err != nil {
		return err
	}
	s.AllowAnyHost(true) // others cannot reach a loopback address
	for _, e := range d.exports {
		if _, err := s.AddNamespace(target.NamespaceConfig{Store: e.store, Name: e.name}); err != nil {
			return err
		}
	}
	l, err := d.target.Listen(netip.AddrPortFrom(device.Addr(), nvmeof.DefaultPort))
	if err != nil {
		return err
	}
	d.at = l.Addr()
	return nil
}

func (d *demo) options() host.Options {
	return host.Options{Traddr: d.at.Addr(), Trsvcid: d.at.Port(), NQN: demoNQN}
}

func (d *demo) discover(ctx context.Context) error {
	o := d.options()
	o.NQN = ""
	log, err := d.host.Discover(ctx, o)
	if err != nil {
		return err
	}
	for i := range log.Entries {
		if e := &log.Entries[i]; e.SUBTYPE == capsule.SubsystemNVM {
			d.say("discover", "%s at %s:%s", nvmeof.Visible(capsule.Text(e.SubNQN[:])), nvmeof.Visible(capsule.Text(e.TRADDR[:])), nvmeof.Visible(capsule.Text(e.TRSVCID[:])))
			return nil
		}
	}
	return errors.New("the target does not list its subsystem")
}

func (d *demo) connect(ctx context.Context) (err error) {
	if d.controller, err = d.host.Connect(ctx, d.options()); err != nil {
		return err
	}
	c := d.controller
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if d.exports[i].ns, err = c.Namespace(ctx, id); err != nil {
			return err
		}
	}
	d.say("connect", "controller %#x, NVMe %v, %d I/O queue of %d entries, %d KiB a command", uint16(c.ID()), c.Version(),
		c.IOQueues(), c.QueueDepth(), c.MaxTransfer()>>10)
	return nil
}

func (d *demo) list(context.Context) error {
	var devices []nvmecli.Device
	for i, e := range d.exports {
		devices = append(devices, listing.Device(d.controller, e.ns, 0, i+1))
	}
	fmt.Fprintln(d.out)
	err := nvmecli.ListText(d.out, devices)
	fmt.Fprintln(d.out)
	return err
}

// outsideAddr returns an address of this machine that others may reach, or one from the range reserved for
// documentation.
func outsideAddr() netip.Addr {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok && addr.Unmap().Is4() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
				return addr.Unmap()
			}
		}
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, 1})
}
