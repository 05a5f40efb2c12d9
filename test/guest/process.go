package guest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// monitorDescriptor is QEMU's end of its monitor's socket, the first of [exec.Cmd.ExtraFiles].
const monitorDescriptor = 3

// launch starts QEMU. The guest does not accept scripts yet.
func launch(m Image, cfg Config, s store) (*Guest, error) {
	g := &Guest{share: cfg.Share, exited: make(chan struct{})}
	monitor, theirs, err := newMonitor()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	g.monitor = monitor
	cmd := exec.Command("qemu-system-x86_64", cfg.arguments(m, s)...)
	cmd.ExtraFiles = []*os.File{theirs}
	if err := g.run(cmd); err != nil {
		monitor.conn.Close()
		return nil, err
	}
	if err := monitor.do("qmp_capabilities", nil, nil); err != nil {
		err = errors.Join(err, errors.New(g.console()))
		g.Close()
		return nil, err
	}
	return g, nil
}

// run runs QEMU from a thread that lives as long as QEMU, since the kernel kills the child (Pdeathsig) when the thread
// that started it ends.
func (g *Guest) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := os.Create(filepath.Join(g.share, "qemu.log"))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return err
	}
	started := make(chan error)
	go func() { // ends with QEMU, which Close kills
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_, _ = cmd.Process.Wait()
		close(g.exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	g.qemu, g.requests = cmd.Process, stdin
	g.replies = make(chan reply)
	go g.read(stdout) // ends at the end of QEMU's output
	return nil
}
