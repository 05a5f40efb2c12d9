package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// An InUseError says that another process has the address, or this one already.
type InUseError struct {
	Addr netip.Addr
	PID  int // 0: not known (it lives in another PID namespace, say)
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

// lockBacklog is how many may learn at a time who has an address.
const lockBacklog = 1024

func lockName(addr netip.Addr) string { return "@nvmeof/roce/" + addr.String() }

// lockAddress takes the abstract unix socket that stands for an address in this
// network namespace, and returns its descriptor.
func lockAddress(addr netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("lock %v: %w", addr, err)
	}
	name := &unix.SockaddrUnix{Name: lockName(addr)}
	if err = unix.Bind(fd, name); err == nil {
		// Nobody accepts: those who find the lock taken only connect, to learn who
		// listens, and stay in the backlog.
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
