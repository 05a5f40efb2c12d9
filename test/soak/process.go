package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is a child of the soak, which dies with it.
type process struct {
	name   string
	cmd    *exec.Cmd
	input  io.WriteCloser
	exited chan struct{}
	err    error // the result of Wait, valid once exited is closed

	mu   sync.Mutex // guards what follows
	said []string   // the last lines
	over bool       // the soak has ended it
}

// kept is how many lines of a process are remembered.
const kept = 60

// start starts a program. If line is not nil, it is called with each line of standard output; all other output is
// remembered. The environment is the soak's with the given additions.
func start(name string, line func(string), environment []string, path string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // an interrupt is sent to the soak only
	if line == nil {
		line = p.remember
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() { // ends with the process; the kernel kills that when the thread which started it ends
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var readers sync.WaitGroup
		readers.Go(func() { eachLine(stdout, line) })
		readers.Go(func() { eachLine(stderr, p.remember) })
		readers.Wait()
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func eachLine(r io.Reader, do func(string)) {
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		s, err := b.ReadString('\n')
		if s != "" {
			do(strings.TrimSuffix(s, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func (p *process) remember(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s) > 2000 {
		s = s[:2000]
	}
	p.said = append(p.said, s)
	if p.crashed() {
		return // keep the whole trace
	}
	if len(p.said) > kept {
		p.said = slices.Delete(p.said, 0, len(p.said)-kept)
	}
}

// crashed reports whether the output begins to show a crash of the Go runtime or a data race. The caller holds mu.
func (p *process) crashed() bool {
	return len(p.said) < 500 && slices.ContainsFunc(p.said, func(s string) bool {
		return strings.HasPrefix(s, "panic:") || strings.HasPrefix(s, "fatal error:") || strings.Contains(s, "DATA RACE")
	})
}

func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// expected records that the soak is about to end the process.
func (p *process) expected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// unexpected reports whether the process exited although the soak did not end it.
func (p *process) unexpected() bool {
	select {
	case <-p.exited:
	default:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.over
}

// kill kills the process with SIGKILL.
func (p *process) kill() {
	p.expected()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// finish interrupts a process, and reports whether it exited in time.
func (p *process) finish(limit time.Duration) bool {
	p.expected()
	_ = p.input.Close()
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		p.kill()
		return false
	}
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) pid() int { return p.cmd.Process.Pid }
