package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// An InUseError means that an address is in use by another process, or by this one.
type InUseError struct {
	Addr netip.Addr
	PID  int // 0: unknown, for example because it is in another PID namespace
}

func (e *InUseError) Error() string {
	owner := "another process"
	if e.PID == os.Getpid() {
		return fmt.Sprintf("this process already is the RoCEv2 endpoint of %v, with one port: name the address once, or use another address of this machine (a host's is set by --host-traddr)", e.Addr)
	}
	if e.PID > 0 {
		owner = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s already is the RoCEv2 endpoint of %v: stop it, or use another address of this machine (a host's is set by --host-traddr)", owner, e.Addr)
}

// lockBacklog is the number of processes that can ask at a time which process has an address.
const lockBacklog = 1024

func lockName(addr netip.Addr) string { return "@nvmeof/roce/" + addr.String() }

// lockAddress binds the abstract unix socket that is the lock of an address in this network namespace, and returns
// its descriptor.
func lockAddress(addr netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("lock %v: %w", addr, err)
	}
	name := &unix.SockaddrUnix{Name: lockName(addr)}
	if err = unix.Bind(fd, name); err == nil {
		// Connections are not accepted. A process that finds the lock taken only connects to learn the PID of the
		// listener, and stays in the backlog.
		err = unix.Listen(fd, lockBacklog)
	}
	if err == nil {
		return fd, nil
	}
	defer unix.Close(fd)
	if !errors.Is(err, unix.EADDRINUSE) {
		return -1, fmt.Errorf("lock %v: %w", addr, err)
	}
	inUse := &InUseError{Addr: addr}
	if unix.Connect(fd, name) == nil {
		if c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			inUse.PID = int(c.Pid)
		}
	}
	return -1, inUse
}
