package control

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSilentConsole: connecting to an address that does not answer ends, so that the next address of the name is tried,
// although the call has no deadline.
func TestSilentConsole(t *testing.T) {
	if !*long {
		t.Skip("it takes 10 s: -long")
	}
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 77, 60, 20}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := net.TCPAddr{IP: net.IPv4(127, 77, 60, 20), Port: name.(*unix.SockaddrInet4).Port}
	for { // until its backlog is full, and the kernel drops what comes
		c, err := net.DialTimeout("tcp", at.String(), 100*time.Millisecond)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := NewRemoteClient("https://"+at.String(), func() (string, error) { return "", nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := time.Now()
	err = c.Do(t.Context(), "GET", "/v1/status", nil, nil, nil)
	if took := time.Since(begin); !errors.As(err, new(*ConnectError)) || took > time.Minute {
		t.Errorf("%v after %v", err, took)
	}
}
