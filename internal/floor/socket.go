package floor

import (
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxDatagram is larger than any UDP datagram, merged or not.
const maxDatagram = 65536

// socket is a plain UDP socket with one peer.
type socket struct {
	fd   int
	is4  bool
	buf  [maxDatagram]byte
	name unix.RawSockaddrInet6 // the peer's
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

func (s *socket) send(b []byte) error {
	// RawSyscall: with MSG_DONTWAIT it cannot block.
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&s.name)), s.size)
	if errno != 0 {
		return fmt.Errorf("send %d bytes: %w", len(b), errno)
	}
	return nil
}

// waitTime is the longest wait, so that a measurement can end.
const waitTime = 50 // ms

// wait sleeps until a datagram has arrived, and reports whether one has.
func (s *socket) wait() bool {
	fds := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds[:], waitTime)
	return n > 0
}

// receive polls until a datagram has arrived. It returns false once giveUp returns true, which it calls from time to
// time.
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

// receiveBuffer is the requested size of a flow's receive buffer, that of softroce.
const receiveBuffer = 8 << 20

// enlarge makes the receive buffer as large as the system allows, and returns its size as the kernel counts it.
func (s *socket) enlarge() (int, error) {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0, fmt.Errorf("read SO_RCVBUF: %w", err)
	}
	return n, nil
}

const batchSlots = 64

// A batch is the memory of one recvmmsg call. It is on the heap, whose objects do not move.
type batch struct {
	messages [batchSlots]unix.Mmsghdr
	vectors  [batchSlots]unix.Iovec
	slots    [batchSlots][maxDatagram]byte
}

func newBatch() *batch {
	b := new(batch)
	for i := range b.messages {
		b.vectors[i].Base = &b.slots[i][0]
		b.vectors[i].SetLen(maxDatagram)
		b.messages[i].Hdr.Iov = &b.vectors[i]
		b.messages[i].Hdr.SetIovlen(1)
	}
	return b
}

// receiveBatch receives what has arrived and returns its size in bytes.
func (s *socket) receiveBatch(b *batch) (bytes int) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&b.messages)), batchSlots, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	for i := range int(n) {
		bytes += int(b.messages[i].Len)
	}
	return bytes
}
