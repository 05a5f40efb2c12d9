package udp

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAdopt: another group continues with the sockets of a group and the datagrams in them. The address stays in use
// until both groups and the files are closed.
func TestAdopt(t *testing.T) {
	for _, addr := range []string{"127.104.1.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			at := netip.MustParseAddr(addr)
			const shards = 3
			old := listenEither(t, at, Config{Shards: shards, Transmit: 2})
			if err := errors.Join(old.Prepare(), old.Prepare()); err != nil {
				t.Fatal(err)
			}
			prepared := old.(*group).prepared
			m, files, err := old.Move()
			if err != nil {
				t.Fatal(err)
			}
			if len(files) != 1+3*shards || !slices.Equal(files, prepared) {
				t.Fatalf("%d files, of which %d were there before", len(files), len(prepared))
			}
			wantFlags(t, files)
			for qpn := range byte(2 * shards) {
				b := make([]byte, 32)
				b[7] = 16 + qpn
				wantSent(t, old.Ports()[0], []Message{{To: to(old), Pieces: [][]byte{b}}}, 1)
			}
			next, err := Adopt(at, Config{}, m, files)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				f.Close()
			}
			for i, p := range next.Ports() {
				wantAsleep(t, "the old port", old.Ports()[i])
				if got, want := p.Sources(), old.Ports()[i].Sources(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
					t.Errorf("port %d sends from %v, and did from %v", i, got, want)
				}
				wantQPNs(t, p, i, shards)
			}
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			var inUse *InUseError
			if _, err := Listen(at, Config{}); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
				t.Errorf("opened twice: %v", err)
			}
			if err := next.Close(); err != nil {
				t.Fatal(err)
			}
			if at.Is6() { // which another test may be using by now
				return
			}
			again, err := Listen(at, Config{})
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

func listenEither(t *testing.T, at netip.Addr, cfg Config) Group {
	t.Helper()
	if at.Is6() {
		return listen6(t, cfg)
	}
	g, err := Listen(at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// wantFlags requires that files are close-on-exec and non-blocking.
func wantFlags(t *testing.T, files []*os.File) {
	t.Helper()
	for i, f := range files {
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("file %d is not closed on exec: %v", i, err)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("file %d blocks: %v", i, err)
		}
	}
}

// wantAsleep requires that arriving datagrams do not wake a port.
func wantAsleep(t *testing.T, what string, p Port) {
	t.Helper()
	start, waits := time.Now(), 0
	for ; time.Since(start) < 2*time.Millisecond; waits++ { // a signal may end one
		p.Wait(time.Millisecond)
	}
	if waits > 500 {
		t.Errorf("%s was woken %d times", what, waits)
	}
}

// wantQPNs requires that a port wakes after Begin, and has the two datagrams steered to it.
func wantQPNs(t *testing.T, p Port, index, shards int) {
	t.Helper()
	start := time.Now()
	wantAsleep(t, "the new port", p)
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	p.Wait(10 * time.Second)
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("port %d does not wake", index)
	}
	b, got := p.NewBatch(), 0
	n, err := p.Recv(b)
	for i := range n {
		d := &b.Datagrams[i]
		for rest := d.Data; len(rest) > 0; rest = rest[min(len(rest), 32):] {
			if got++; int(rest[7])%shards != index {
				t.Errorf("port %d has a datagram for queue pair %d", index, rest[7])
			}
		}
	}
	if err != nil || got != 2 {
		t.Errorf("port %d has %d datagrams, %v", index, got, err)
	}
}

// TestAdoptRefuses: descriptors that are not those of the group are refused.
func TestAdoptRefuses(t *testing.T) {
	at := netip.MustParseAddr("127.104.1.5")
	g, err := Listen(at, Config{Shards: 2, Transmit: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // of the test
	m, files, err := g.Move()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, null)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	pick := func(is ...int) (out []*os.File) {
		for _, i := range is {
			out = append(out, files[i])
		}
		return out
	}
	for _, c := range []struct {
		want  string
		addr  string
		m     Moved
		files []*os.File
	}{
		{"4 descriptors, want 5", "127.104.1.5", m, pick(0, 1, 2, 3)},
		{"not the lock", "127.104.1.5", m, pick(1, 0, 2, 3, 4)},
		{"not the lock", "127.104.1.6", m, pick(0, 1, 2, 3, 4)},
		{"port", "127.104.1.5", m, pick(0, 2, 1, 3, 4)},
		{"not a UDP socket", "127.104.1.5", m, pick(0, 1, 2, 3, 0)},
		{"not a socket", "127.104.1.5", m, pick(0, 1, 5, 3, 4)},
		{"missing", "127.104.1.5", m, []*os.File{files[0], nil, nil, nil, nil}},
		{"0 ports", "127.104.1.5", Moved{Transmit: 1}, pick(0)},
		{"transmit sockets", "127.104.1.5", Moved{Transmit: -1, Overflow: []uint32{0}}, pick(0)},
	} {
		if _, err := Adopt(netip.MustParseAddr(c.addr), Config{}, c.m, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}
