package targetcommand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/takeover"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A takeoverMode is the value of --takeover.
type takeoverMode string

const (
	takeNothing takeoverMode = ""
	takeAlways  takeoverMode = "always"
	takeUpgrade takeoverMode = "upgrade"

	takeoverHelp = "replace the running target with the same flags or file, and keep its hosts: they see only a pause. " +
		"=upgrade: only if that is another version, or its program file was replaced. Changes made by the control socket are kept. Not possible with verbs"
)

// Set implements pflag.Value.
func (m *takeoverMode) Set(s string) error {
	switch v := takeoverMode(s); v {
	case takeAlways, takeUpgrade:
		*m = v
		return nil
	}
	return failure.Usagef("--takeover=%s: want %s or %s", s, takeAlways, takeUpgrade)
}

func (m *takeoverMode) String() string { return string(*m) }

func (m *takeoverMode) Type() string { return "WHEN" }

const (
	// suspendTime is how long the outstanding commands of hosts may take before a takeover is given up.
	suspendTime = 2 * time.Second
	// endTime is how long a process that failed to take over may take to end.
	endTime = 500 * time.Millisecond
)

// A handedOver is a target that is being moved between two processes.
type handedOver struct {
	moved *control.Moved
	conn  *takeover.Conn   // to the other process; nil: none any more
	since time.Time        // when commands of hosts began to wait
	ended time.Time        // when the outstanding ones had ended and were exported
	done  bool             // this process serves the target
	why   error            // why the connections of hosts are lost, if moved has none
	spare *control.Moved   // the target without connections, in case they cannot be continued; nil: none
	own   *config.Document // from the flags or file of this process; nil: it has served before
}

// close frees what is not needed once the target serves. The memory is in use by the namespaces.
func (x *handedOver) close() (err error) {
	for name, f := range x.moved.Files {
		err = errors.Join(err, f.Close())
		delete(x.moved.Files, name)
	}
	if x.spare != nil {
		err = errors.Join(err, x.spare.Close())
	}
	if x.conn != nil {
		err = errors.Join(err, x.conn.Close())
	}
	return err
}

// without returns the target without its connections, or nil, when no process can continue them.
func (x *handedOver) without(log *zap.Logger) *handedOver {
	if err := x.moved.Close(); err != nil {
		log.Warn("cannot close what the other process does not take over", zap.Error(err))
	}
	if x.spare == nil {
		if n := len(x.moved.Offsets); n > 0 {
			log.Error("data that hosts have written to memory namespaces is lost: they read zeroes", zap.Int("namespaces", n))
		}
		return nil
	}
	return &handedOver{moved: x.spare}
}

// takeOver takes the running target over if --takeover says so. It returns nil if there is nothing to do.
func (d *Daemon) takeOver(ctx context.Context) (*handedOver, error) {
	if d.takes == takeNothing {
		return nil, nil
	}
	at, err := d.runningSocket()
	if err != nil {
		return nil, fmt.Errorf("--takeover: %w", err)
	}
	c, h, err := takeover.Ask(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("--takeover: %w", err)
	}
	if d.takes == takeUpgrade && h.Version == d.version && !h.Replaced {
		fmt.Fprintf(d.Out, "process %d is version %s already\n", h.PID, h.Version)
		d.begun() // there is no more output to hold back
		return nil, c.Cancel()
	}
	if h.Notify != "" && os.Getenv("NOTIFY_SOCKET") == "" { // the processes that systemd runs for a reload do not have it
		_ = os.Setenv("NOTIFY_SOCKET", h.Notify)
	}
	x, err := c.Take()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--takeover: %w", err), c.Close())
	}
	d.Log.Info("taking over", zap.Int("process", h.PID), zap.String("version", h.Version), zap.Int("controllers", x.Target.Associations()))
	in := d.hand(x, c)
	in.own = d.Document
	return in, nil
}

// maxIgnored limits how many differences are logged.
const maxIgnored = 20

// sayIgnored logs the differences between this process's flags or file and the target that was taken over. This
// process continues with the latter.
func (d *Daemon) sayIgnored(in *handedOver) {
	if in.own == nil {
		return
	}
	own, _, err := config.Parse("", in.own.JSON()) // in the same form as the other document
	if err != nil {
		d.Log.Warn("the given configuration is not compared with that of the target", zap.Error(err))
		return
	}
	var ignored []string
	for _, c := range config.Diff(in.moved.Saved, own) {
		c.Loses = false // the difference is not applied
		ignored = append(ignored, c.String())
	}
	if n := len(ignored) - maxIgnored; n > 0 {
		ignored = append(ignored[:maxIgnored], fmt.Sprintf("and %d more", n))
	}
	switch {
	case len(ignored) == 0:
	case d.Flags != nil:
		d.Log.Warn("flags that differ from those of the target that was taken over are ignored", zap.Strings("ignored", ignored),
			zap.String("remedy", "restart this target with them, or change the running target: nvmeof namespace add and so on"))
	default:
		d.Log.Warn("the file has changes that the target that was taken over had not read, and they are not applied yet", zap.Strings("ignored", ignored),
			zap.String("remedy", "nvmeof target apply "+shell.Quote(d.File)))
	}
}

// runningSocket returns the control socket of the target that is to be taken over.
func (d *Daemon) runningSocket() (string, error) {
	switch {
	case d.Socket == noSocket:
		return "", failure.Usagef("--socket %s: the running target is only reached by a control socket", noSocket)
	case d.Socket != "":
		return d.Socket, nil
	case d.Flags == nil:
		return control.SocketOf(os.Getenv, os.Getuid(), "")
	}
	return control.SocketOf(os.Getenv, os.Getuid(), d.Document.Listeners[0].Address.String())
}

// adopt continues the hosts' associations, after apply has recreated the target.
func (x *handedOver) adopt(ctx context.Context, m *control.Manager, o *opener, apply func(*control.Manager) error) error {
	if err := apply(m); err != nil {
		return err
	}
	if x.moved.Target == nil {
		x.done = true
		return x.close()
	}
	if err := x.lacking(m); err != nil {
		return err
	}
	begin, err := control.Adopt(m)
	if err != nil {
		return err
	}
	if x.conn != nil {
		if ctx.Err() != nil {
			return errors.New("this process was requested to end")
		}
		if err := x.conn.Serve(); err != nil && !x.orphaned() {
			return fmt.Errorf("the old process continues to serve: %w", err)
		}
	}
	x.done = true
	begin()
	return errors.Join(o.forgetMoved(), x.close())
}

// lacking returns an error if hosts would lose something that the other process still serves, so that it must
// continue. It returns nil if they would not, or if that process has ended.
func (x *handedOver) lacking(m *control.Manager) error {
	if x.conn == nil || x.conn.Ended(0) {
		return nil
	}
	return control.Lacking(m)
}

// orphaned reports whether the other process has ended without its knowing that it was taken over: only this process
// can continue its hosts' associations.
func (x *handedOver) orphaned() bool { return x.conn.Ended(endTime) }

// abandon ends this process if it cannot take over and the other process can continue. It exits without closing
// anything, so that hosts notice nothing. If there is no other process, or it has ended too, abandon returns err.
func (x *handedOver) abandon(err error) error {
	if x == nil || x.conn == nil || x.done {
		return err
	}
	if x.conn.Refuse(err) != nil && x.orphaned() { // otherwise it waits until this process has ended
		return err
	}
	fmt.Fprintf(os.Stderr, "nvmeof: --takeover: %v; the running target continues\n", err)
	os.Exit(1)
	return err
}

// takeoverRequested is called when a process asks to take this one over.
func (d *Daemon) takeoverRequested(socket string) error {
	if d.gateway != nil {
		return errors.New("it is a gateway of a group: use nvmeof gateway drain, so that others serve while it is replaced")
	}
	if !d.given.CompareAndSwap(false, true) {
		return errors.New("it is already being taken over, is starting or is stopping: try again")
	}
	c, err := takeover.Answer(socket)
	if err != nil {
		d.given.Store(false)
		return err
	}
	d.asked <- c
	return nil
}

// refuseTakeOvers is called when this process ends.
func (d *Daemon) refuseTakeOvers() {
	if d.given.Swap(true) { // one has asked, or is about to: its connection ends with this process
		select {
		case c := <-d.asked:
			_ = errors.Join(c.Refuse(errors.New("it ends")), c.Close())
		default:
		}
	}
}

// give prepares what another process needs to continue. It returns nil if this one continues.
func (d *Daemon) give(ctx context.Context, m *control.Manager, c *takeover.Conn) *handedOver {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // ends with give
	log := d.Log.With(zap.Int("process", c.PID()))
	ready, err := c.Greet(takeover.Hello{Version: d.version, PID: os.Getpid(), Replaced: replaced(), Notify: os.Getenv("NOTIFY_SOCKET")})
	if err != nil || !ready {
		if err != nil {
			log.Warn("the other process gave up the takeover", zap.Error(err))
		}
		_ = c.Close()
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, suspendTime)
	defer cancel()
	since := time.Now()
	x, err := control.Export(limit, m)
	if x != nil {
		err = errors.Join(err, d.keepListeners(x))
		if err != nil {
			log.Warn("cannot close the target completely for a takeover", zap.Error(err))
		}
		return &handedOver{moved: x, conn: c, since: since, ended: time.Now(), why: err}
	}
	log.Warn("takeover refused", zap.Error(err))
	_ = errors.Join(c.Refuse(err), c.Close()) // it may be gone
	return nil
}

// handOver passes the target, which this process has closed, to another process. If that fails, it returns what this
// process needs to continue.
func (d *Daemon) handOver(out *handedOver, closing error) *handedOver {
	if closing != nil {
		d.Log.Warn("cannot close the target completely for a takeover", zap.Error(closing))
	}
	log := d.Log.With(zap.Int("process", out.conn.PID()))
	if out.moved.Target == nil {
		log.Error("takeover failed: the connections of hosts are lost, and hosts reconnect", zap.Error(out.why))
		_ = errors.Join(out.conn.Refuse(out.why), out.conn.Close()) // it may be gone
		return &handedOver{moved: out.moved}
	}
	err := out.conn.Give(out.moved)
	if err == nil {
		systemd.Notify("MAINPID=" + strconv.Itoa(out.conn.PID()))
		log.Info("another process has taken over", zap.Duration("pause", time.Since(out.since)), zap.Duration("of_which_export", out.ended.Sub(out.since)))
		_ = errors.Join(out.moved.Close(), out.conn.Close()) // the process ends
		return nil
	}
	log.Error("the other process did not take over; this one continues to serve", zap.Error(err))
	if err := errors.Join(out.conn.Close(), out.conn.AwaitEnd(endTime)); err != nil {
		log.Warn("waiting for the end of the other process", zap.Error(err))
	}
	return d.hand(out.moved, nil)
}

// hand returns what this process needs to continue with a target.
func (d *Daemon) hand(x *control.Moved, from *takeover.Conn) *handedOver {
	spare, err := x.WithoutHosts()
	if err != nil {
		d.Log.Warn("the data of memory namespaces is lost if this process cannot continue with the hosts", zap.Error(err))
	}
	return &handedOver{moved: x, conn: from, spare: spare}
}

// metricsFile is the name of the metrics' listener among [control.Moved]'s files.
const metricsFile = "metrics"

// listen opens a listener, or uses the socket that this or another process has opened already: within the sandbox a
// process cannot open another one, however often it serves again.
func (d *Daemon) listen(name string, begin func() (net.Listener, error), in *handedOver) (net.Listener, error) {
	f := d.ports[name]
	if f == nil && in != nil {
		f = in.moved.Files[name]
	}
	if f != nil {
		l, err := net.FileListener(f)
		return l, errors.Join(err, d.keepPort(name, l))
	}
	l, err := begin()
	return l, errors.Join(err, d.keepPort(name, l))
}

// keepPort keeps the socket of a listener, which may be nil, until the end of the process.
func (d *Daemon) keepPort(name string, l net.Listener) error {
	t, ok := l.(*net.TCPListener)
	if !ok || d.ports[name] != nil {
		return nil
	}
	f, err := t.File()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	d.ports[name] = f
	return nil
}

func (d *Daemon) closePorts() {
	for _, f := range d.ports {
		_ = f.Close() // an error has no consequence
	}
}

// keepListeners adds the listening TCP sockets to x.
func (d *Daemon) keepListeners(x *control.Moved) error {
	for name, f := range d.ports {
		raw, err := f.SyscallConn() // Fd would make calls of Accept blocking
		if err != nil {
			return err
		}
		var fd int
		if failed := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); failed != nil {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("descriptor of %s: %w", name, err)
		}
		x.Files[name] = os.NewFile(uintptr(fd), name)
	}
	return nil
}

// replaced reports whether the program's file was replaced since the process was started.
func replaced() bool {
	path, err := os.Readlink("/proc/self/exe")
	return err == nil && strings.HasSuffix(path, " (deleted)")
}

// readyFile is the descriptor on which a process in the background reports that it serves.
const readyFile = 3

// readyEnv names that descriptor to the process.
const readyEnv = "NVMEOF_READY_FD"

// background starts the same command in the background, and returns when it serves.
func (f *Flags) background(cmd *cobra.Command) error {
	if f.takes == takeNothing {
		return failure.Usagef("--background needs --takeover")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "--background" || a == "--background=true" })
	next := exec.Command(self, args...) // without cmd's context: it continues when this process has ended
	next.Stdout, next.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	next.Env = append(os.Environ(), readyEnv+"="+strconv.Itoa(readyFile))
	next.ExtraFiles = []*os.File{w}
	next.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(next.Start(), w.Close()); err != nil {
		return err
	}
	if n, _ := r.Read(make([]byte, 1)); n == 1 {
		return next.Process.Release()
	}
	err = next.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		return &failure.Said{Code: exit.ExitCode()}
	}
	return err // for example ended by a signal
}

// reportReady reports to the process that waits in background that this one serves.
func reportReady() {
	if os.Getenv(readyEnv) != strconv.Itoa(readyFile) {
		return
	}
	w := os.NewFile(readyFile, "ready")
	_, _ = w.Write([]byte{1}) // it may have ended
	_ = w.Close()
}
