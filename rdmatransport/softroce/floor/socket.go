package floor

import (
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a bare UDP socket that talks to one other.
type socket struct {
	fd   int
	is4  bool
	buf  [65536]byte
	name unix.RawSockaddrInet6 // of the peer
	size uintptr               // of name
}

func openSocket(addr netip.Addr) (*socket, error) {
	s := &socket{is4: addr.Is4()}
	family, at := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: addr.As16()})
	if s.is4 {
		family, at = unix.AF_INET, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	var err error
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	if err = unix.Bind(s.fd, at); err != nil {
		s.close()
		return nil, fmt.Errorf("bind UDP socket to %v: %w", addr, err)
	}
	return s, nil
}

func (s *socket) close() { unix.Close(s.fd) }

// peer makes other the destination of what s sends.
func (s *socket) peer(other *socket) {
	size := uint32(unsafe.Sizeof(s.name))
	unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(other.fd), uintptr(unsafe.Pointer(&s.name)), uintptr(unsafe.Pointer(&size)))
	s.size = uintptr(size)
}

func (s *socket) send(n int) error {
	// RawSyscall: with MSG_DONTWAIT it cannot block.
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&s.buf)), uintptr(n),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&s.name)), s.size)
	if errno != 0 {
		return fmt.Errorf("send %d bytes: %w", n, errno)
	}
	return nil
}

// waitTime is how long a wait lasts at most, so that a measurement can end.
const waitTime = 50 // ms

// wait sleeps until a datagram is there, and reports whether one is.
func (s *socket) wait() bool {
	fds := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds[:], waitTime)
	return n > 0
}

// receive polls until a datagram is there, or returns false once giveUp does,
// which it asks now and then.
func (s *socket) receive(giveUp func() bool) bool {
	for turn := 1; ; turn++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&s.buf)), unsafe.Sizeof(s.buf),
			unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return true
		}
		if turn%yieldTurns == 0 {
			if giveUp() {
				return false
			}
			runtime.Gosched()
		}
	}
}
