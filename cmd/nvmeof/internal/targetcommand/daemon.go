package targetcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/gateway"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/takeover"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// noSocket is the value of --socket for a target without a control socket.
const noSocket = "none"

// A Daemon is a running target. It serves a document that was read from a file or made from flags.
type Daemon struct {
	Document *config.Document
	File     string // the file of the document, or "" if it is of Flags
	Flags    *Flags // flags of which the document was made, or nil
	names    map[config.Path]string
	Socket   string // path of the control socket, or noSocket; empty: the default one, or one beside it
	Log      *zap.Logger
	Out      io.Writer
	ErrOut   io.Writer

	version string             // of the program
	lines   metrics.LogCounter // counts the lines of Log
	sandbox string             // value of --sandbox
	enter   Enter              // nil: no sandbox
	within  confinement

	audit     *audit            // nil: none
	unkept    []control.Trouble // problems with the file of events
	begun     func()            // called once hosts are served; may be nil
	opening   opening
	running   atomic.Pointer[control.Manager] // nil during start and end
	announced []netip.AddrPort                // guarded by the manager's mutex

	controllers controllerRange // value of --controller-ids

	takes   takeoverMode        // value of --takeover
	ports   map[string]*os.File // listening TCP sockets by name, which are passed to a process that takes over
	asked   chan *takeover.Conn // receives the connection of a process that wants to take over
	given   atomic.Bool         // a takeover is in progress, or this process starts or ends
	gateway *gateway.Gateway    // nil: the target is not in a group
}

// A Machine provides the devices and addresses of a target. Its zero value is the local machine.
type Machine struct {
	Device    func(transport string, addr netip.Addr, cfg provider.Config) (rdmatransport.Device, error)
	Addresses func() ([]netip.Addr, error)
}

// hangUp handles SIGHUP: it reads the keys again and has the audit's file reopened. If nothing of the target can be
// reread (see rereads), it calls end, since the signal means that the terminal was closed. During the start there is
// nothing to do, since the files have not been read yet.
func (d *Daemon) hangUp(end func()) {
	m := d.running.Load()
	if m == nil {
		return
	}
	if !rereads(m.Document()) {
		end()
	}
	d.audit.rotated()
	_, err := m.RereadKeys()
	if err != nil {
		d.Log.Error("keys", zap.Error(err))
	}
	control.AuditSignal(m, "SIGHUP", "rereadKeys", err)
}

// rereads reports whether SIGHUP can be meant for the target's files: the file of the audit, the key file of a host,
// or the tokens and certificate of the console. The console rereads its certificate without the signal too, but tools
// that renew certificates send it.
func rereads(d *config.Document) bool {
	if d.Audit.File != "" || d.Console.Tokens != "" {
		return true
	}
	for _, s := range d.Subsystems {
		if slices.ContainsFunc(s.Hosts, func(h *config.Host) bool { return h.KeyFile != "" }) {
			return true
		}
	}
	return false
}

// Run serves until ctx ends, or until another process has taken over.
func (d *Daemon) Run(ctx context.Context, on Machine) error {
	d.given.Store(true) // until it serves
	d.asked, d.ports = make(chan *takeover.Conn, 1), map[string]*os.File{}
	defer d.closePorts()
	in, err := d.takeOver(ctx)
	if err != nil || in == nil && d.takes != takeNothing {
		return err
	}
	for {
		out, err := d.serve(ctx, on, in)
		switch {
		case out != nil:
		case err != nil && in != nil && !in.done && ctx.Err() == nil:
			d.Log.Error("the connections of hosts are lost: hosts reconnect", zap.Error(err))
			in = in.without(d.Log)
			continue
		default:
			return err
		}
		if in = d.handOver(out, err); in == nil {
			return nil
		}
	}
}

// serve serves until ctx ends, or until another process takes over, and returns in out what that process needs. in is
// what this process has taken over, or nil.
func (d *Daemon) serve(ctx context.Context, on Machine, in *handedOver) (out *handedOver, err error) {
	if in != nil {
		d.Document = in.moved.Document
	}
	socket, err := d.takeSocket()
	if err != nil {
		return nil, in.abandon(err)
	}
	if socket != nil {
		takeover.ClearLeftOver(filepath.Dir(socket.Path()))
		defer func() { err = errors.Join(err, socket.Close()) }()
	}
	at, err := d.takePorts(in)
	if err != nil {
		return nil, in.abandon(err)
	}
	defer at.close()
	happened, err := d.openEvents()
	if err != nil {
		return nil, in.abandon(err)
	}
	defer func() { err = d.endEvents(happened, err) }()
	defer d.part()
	t, err := d.makeTarget(ctx, happened)
	if err != nil {
		return nil, in.abandon(err)
	}
	d.foresee()
	o := newOpener(on.Device, d.Document, d.Log, d.confined)
	m := control.New(d.managed(t, o, on, happened, in))
	defer func() { err = errors.Join(err, d.finish(m, t)) }()
	d.running.Store(m)
	defer d.running.Store(nil)
	if err := d.confine(socket); err != nil {
		return nil, in.abandon(err)
	}
	if in != nil {
		if err := in.adopt(ctx, m, o, d.apply); err != nil {
			return nil, in.abandon(err)
		}
		d.sayIgnored(in)
	}
	defer d.serveMetrics(at.scraped, t, m, o)() // by now the counters have been restored
	if in == nil {
		if err := d.apply(m); err != nil {
			return nil, err
		}
	}
	defer d.runGateway(m)()
	d.given.Store(false)
	if socket != nil {
		defer control.Serve(m, socket).Close()
	}
	defer d.serveConsole(at.console, m, happened)()
	d.announceAll(m, socket)
	return d.stay(ctx, m), nil
}

// confine enters the sandbox, and prints where a target of flags is controlled.
func (d *Daemon) confine(socket *control.Socket) error {
	if err := d.enterSandbox(socket); err != nil {
		return err
	}
	if d.Flags != nil && socket != nil {
		fmt.Fprintf(d.Out, "controlled at %s\n", socket.Path())
	}
	return nil
}

// foresee warns of memory that the machine does not have.
func (d *Daemon) foresee() {
	for _, p := range control.ForeseeMemory(d.Document) {
		fmt.Fprintln(d.ErrOut, "warning:", p)
	}
}

// serveMetrics serves the metrics at a listener, which may be nil.
func (d *Daemon) serveMetrics(at net.Listener, t *target.Target, m *control.Manager, o *opener) (end func()) {
	if at == nil {
		return func() {}
	}
	fmt.Fprintf(d.Out, "metrics at http://%v%s\n", at.Addr(), metrics.Path)
	return metrics.Serve(at, metrics.Handler(d.Log, d.collectors(t, m, o)...), d.Log)
}

// stay serves until ctx ends, or another process takes over.
func (d *Daemon) stay(ctx context.Context, m *control.Manager) *handedOver {
	if d.begun != nil {
		d.begun()
		d.begun = nil
		reportReady()
	}
	systemd.Notify("READY=1")
	trims := time.NewTicker(trimEvery)
	defer trims.Stop()
	var memory trimmer
	for {
		select {
		case <-trims.C:
			memory.look()
		case c := <-d.asked:
			if out := d.give(ctx, m, c); out != nil {
				return out
			}
			d.given.Store(false)
		case <-ctx.Done():
			d.refuseTakeOvers()
			d.Log.Info("stopping")
			systemd.Notify("STOPPING=1")
			return nil
		}
	}
}

// finish ends the target.
func (d *Daemon) finish(m *control.Manager, t *target.Target) error {
	d.Log.Info("authentications", zap.Any("counters", t.AuthCounts()))
	d.Log.Info("admission", zap.Any("counters", t.AdmissionCounts()))
	return end(m.Close, t.Unfinished)
}

// managed returns the configuration of the target's manager.
func (d *Daemon) managed(t *target.Target, o *opener, on Machine, happened *events.Log, in *handedOver) control.Config {
	stores := control.NewOpener()
	c := control.Config{Target: t, Settings: d.Document, Log: d.Log, Events: happened, Audit: d.audit.sink(), File: d.File, Names: d.names,
		Device: o.open, DeviceName: o.deviceName, Serves: o.serves, Away: deviceMayCome, Closing: o.closing, Addresses: on.Addresses,
		Open: func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			path := string(n.Path())
			d.opening.begin(path)
			defer d.opening.end(path)
			s, notes, err := stores.Open(n, pool)
			return s, notes, d.refused(path, err)
		}, Permit: d.permit, TakeOver: d.takeoverRequested, Troubled: d.troubles}
	if d.gateway != nil {
		d.gateway.Complete(&c)
	}
	if in != nil {
		c.Moved = in.moved
		if in.moved.Target != nil {
			o.moved = in.moved.Target.Devices
		}
	}
	if d.Flags == nil {
		c.State = stateDir()
	} else {
		c.Listening = d.announce
	}
	return c
}

// apply applies the document to the target. Errors of exports end a target of flags; a target of a file waits for such
// exports.
func (d *Daemon) apply(m *control.Manager) error {
	if d.Flags == nil {
		_, err := m.Apply(d.Document, control.Options{Wait: true})
		var step *control.StepError
		if errors.As(err, &step) { // the target was empty before
			return fmt.Errorf("%s: %v: %w", d.File, step.Step, step.Err)
		}
		return err
	}
	_, err := m.Apply(d.Document, control.Options{WaitDevice: true})
	return d.Flags.explain(err)
}

// takeSocket opens the control socket before anything else is started, so that a second target started by mistake
// changes nothing. It returns nil if there is to be none. A target of flags gets a socket of its own beside the
// default one: an experiment must neither keep the target of a file from starting nor receive the commands meant for
// that target.
func (d *Daemon) takeSocket() (*control.Socket, error) {
	switch {
	case d.Socket == noSocket:
		return nil, nil
	case d.Socket != "":
		return control.Listen(d.Socket)
	}
	if d.Flags == nil {
		return control.ListenDefault(os.Getenv, os.Getuid())
	}
	socket, err := control.ListenBeside(os.Getenv, os.Getuid(), d.Document.Listeners[0].Address.String())
	if err != nil {
		fmt.Fprintf(d.ErrOut, "warning: this target cannot be controlled: %v; give another path with --socket PATH, or --socket %s\n", err, noSocket)
		return nil, nil
	}
	return socket, nil
}
