package gateways

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A process can be killed and started again. It is killed at the end of the test.
type process struct {
	name string
	args []string
	env  []string // in addition to the test's own
	log  *os.File

	cmd    *exec.Cmd
	exited chan struct{}
}

func newProcess(t *testing.T, dir, name string, args ...string) *process {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, args: args, log: log}
	t.Cleanup(func() {
		p.kill()
		p.log.Close()
	})
	return p
}

func (p *process) start() error {
	p.cmd, p.exited = exec.Command(p.args[0], p.args[1:]...), make(chan struct{})
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	cmd, exited := p.cmd, p.exited
	go func() { // ends with the process, which the kernel kills when the thread ends that has started it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it was killed, or ended reports the error
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		p.cmd = nil
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// kill sends SIGKILL, and waits for the end.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
	p.cmd = nil
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended: then ended reports it

// wait waits until a process that was asked to end has ended.
func (p *process) wait(limit time.Duration) error {
	select {
	case <-p.exited:
		p.cmd = nil
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended within %v", p.name, limit)
	}
}

// ended reports whether the process has ended without being killed.
func (p *process) ended() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// tail returns the end of its output.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	const most = 6 << 10
	return fmt.Sprintf("--- %s:\n%s", p.name, text[max(0, len(text)-most):])
}
