package child

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// A Process is a child, as seen by its parent.
type Process struct {
	role   string
	cmd    *exec.Cmd
	client *rpc.Client
}

// Start starts a child on the given processors.
func Start(cores process.Cores, role string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, Command, role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cores.Start(cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	client := rpc.NewClientWithCodec(jsonrpc.NewClientCodec(standardPipes{out, in}))
	return &Process{role, cmd, client}, nil
}

type standardPipes struct {
	io.Reader
	io.WriteCloser
}

// Call calls a method of the role's service. result must be a pointer.
func (p *Process) Call(method string, argument, result any) error {
	if err := p.client.Call(p.role+"."+method, argument, result); err != nil {
		return fmt.Errorf("%s: %w", p.role, err)
	}
	return nil
}

// CPUTime returns the processor time that the child has used.
func (p *Process) CPUTime() (time.Duration, error) { return process.CPUTime(p.cmd.Process.Pid) }

// Resident returns how many bytes of memory the child has.
func (p *Process) Resident() (int64, error) { return process.Resident(p.cmd.Process.Pid) }

// endTimeout is how long a child may take to end by itself.
const endTimeout = 10 * time.Second

// Close ends the child.
func (p *Process) Close() error {
	err := p.client.Close() // ends the child's standard input
	kill := time.AfterFunc(endTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if ended := p.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", p.role, ended))
	}
	return err
}
