package fio

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// A Server is another project's NBD server, on a unix socket.
type Server struct {
	cmd    *exec.Cmd
	socket string
	said   bytes.Buffer
}

// NBDKit starts nbdkit, which serves memory.
func NBDKit(cores process.Cores, socket string, size int64) (*Server, error) {
	return start(cores, socket, "nbdkit", "--foreground", "--unix", socket, "memory", fmt.Sprintf("size=%d", size))
}

// QEMU starts qemu-nbd, which serves a file.
func QEMU(cores process.Cores, socket, path string) (*Server, error) {
	return start(cores, socket, "qemu-nbd", "--persistent", "--shared=8", "--socket="+socket, "--format=raw",
		"--aio=io_uring", "--cache=none", path)
}

// QEMUImage starts qemu-nbd, which serves the image POOL/IMAGE of Ceph, without a cache.
func QEMUImage(cores process.Cores, socket, image, conf string) (*Server, error) {
	return start(cores, socket, "qemu-nbd", "--persistent", "--shared=8", "--socket="+socket, "--format=raw", "--cache=none",
		"rbd:"+image+":conf="+conf)
}

// listenTimeout is how long a server may take until it listens.
const listenTimeout = 5 * time.Second

func start(cores process.Cores, socket, name string, args ...string) (*Server, error) {
	if _, err := exec.LookPath(name); err != nil {
		return nil, fmt.Errorf("%s is not installed", name)
	}
	s := &Server{cmd: exec.Command(name, args...), socket: socket}
	s.cmd.Stderr = &s.said
	if err := cores.Start(s.cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for end := time.Now().Add(listenTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			return s, c.Close()
		}
	}
	err := s.Close()
	return nil, errors.Join(fmt.Errorf("%s does not listen on %s: %s", name, socket, s.said.String()), err)
}

// URI returns the server's URI.
func (s *Server) URI() string { return URI(s.socket) }

// URI returns the URI of the server on a socket.
func URI(socket string) string { return "nbd+unix:///?socket=" + socket }

// CPUTime returns the processor time that the server has used.
func (s *Server) CPUTime() (time.Duration, error) { return process.CPUTime(s.cmd.Process.Pid) }

// Close ends the server.
func (s *Server) Close() error {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // it was killed, so an error is expected
	if err := os.Remove(s.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
