package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listen6 listens on ::1, the only IPv6 address that every machine has. Tests of other packages may be using it.
func listen6(t *testing.T, cfg Config) Group {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		g, err := Listen(netip.IPv6Loopback(), cfg)
		switch {
		case err == nil:
			t.Cleanup(func() { g.Close() })
			return g
		case errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT):
			t.Skip("this machine has no IPv6 loopback")
		case !errors.As(err, new(*InUseError)) || time.Now().After(deadline):
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestIPv6(t *testing.T) {
	g := listen6(t, Config{Shards: 2})
	a, b := g.Ports()[0], g.Ports()[1]
	data := packet(7, 3*1024)
	wantSent(t, a, []Message{{To: to(g), Source: 1, TOS: 0x2a, SegmentSize: 1024, Pieces: [][]byte{data}}}, 1)
	for _, r := range receive(t, b, 3) {
		if r.From != a.Sources()[1] || r.TOS != 0x2a || r.ID != -1 || r.SegmentSize != 1024 {
			t.Errorf("received %+v", r.Datagram)
		}
	}
	wantSent(t, a, []Message{{To: netip.MustParseAddrPort("127.0.0.1:4791"), Pieces: [][]byte{data[:50]}}}, 0)
	if n, err := g.MTU(netip.IPv6Loopback()); err != nil || n < 1280 {
		t.Errorf("MTU %d, %v", n, err)
	}
}

func TestWithoutMerging(t *testing.T) {
	a := listenAt(t, netip.MustParseAddr("127.77.20.1"), Config{}).Ports()[0]
	b := listenAt(t, netip.MustParseAddr("127.77.20.2"), Config{NoGRO: true})
	wantSent(t, a, []Message{{To: to(b), SegmentSize: 1024, Pieces: [][]byte{packet(2, 10*1024)}}}, 1)
	for _, r := range receive(t, b.Ports()[0], 10) {
		if r.SegmentSize != 0 || len(r.Data) != 1024 {
			t.Fatalf("%d bytes, segments of %d; want single packets of 1024", len(r.Data), r.SegmentSize)
		}
	}
}

func TestWithoutSegments(t *testing.T) {
	a := listenAt(t, netip.MustParseAddr("127.77.21.1"), Config{NoGSO: true, Transmit: 1}).Ports()[0]
	if a.GSO() || len(a.Sources()) != 1 {
		t.Errorf("GSO %v, %d sources", a.GSO(), len(a.Sources()))
	}
	m := Message{To: to(listenAt(t, netip.MustParseAddr("127.77.21.2"), Config{})), SegmentSize: 1024, Pieces: [][]byte{packet(2, 10*1024)}}
	wantSent(t, a, []Message{m}, 0)
}

// A refused GSO send turns GSO off only if the packets would have fitted.
func TestGSODegrades(t *testing.T) {
	g := listenAt(t, netip.MustParseAddr("127.77.22.1"), Config{})
	p := g.Ports()[0].(*port)
	segments := []Message{{To: to(g), SegmentSize: 1024, Pieces: [][]byte{packet(2, 4096)}}}
	p.sort(segments)
	p.prepare(0, &segments[0])
	p.refused(0, unix.EPERM)
	p.out.segment[0] = 65520 // with headers, too large for loopback
	p.refused(0, unix.EINVAL)
	if !p.GSO() {
		t.Fatal("GSO is off after errors that say nothing about it")
	}
	p.out.segment[0] = 1024
	p.refused(0, unix.EIO)
	if s := p.Stats(); p.GSO() || s.GSOTurnedOff != 1 || s.LastSendError != unix.EIO {
		t.Errorf("GSO %v, stats %+v", p.GSO(), s)
	}
	clear(p.out.iovs)
	p.out.pieces = 0
	wantSent(t, p, segments, 0)
	wantSent(t, p, []Message{{To: to(g), Pieces: [][]byte{packet(2, 64)}}}, 1)
}

func TestReceiveBuffer(t *testing.T) {
	a := listenAt(t, netip.MustParseAddr("127.77.23.1"), Config{}).Ports()[0]
	g := listenAt(t, netip.MustParseAddr("127.77.23.2"), Config{ReceiveBuffer: 212992})
	b := g.Ports()[0]
	if got := b.Stats().ReceiveBuffer; got != 425984 {
		t.Fatalf("effective receive buffer %d, want twice what was asked for", got)
	}
	if b.ReceiveBudget() != 212992 || len(g.Warnings()) != 0 {
		t.Errorf("budget %d, warnings %q", b.ReceiveBudget(), g.Warnings())
	}
	const sent = 1000
	one := []Message{{To: to(g), Pieces: [][]byte{packet(2, 64)}}}
	for range sent {
		wantSent(t, a, one, 1)
	}
	batch, got := b.NewBatch(), 0
	for n := 1; n > 0; got += n {
		n, _ = b.Recv(batch)
	}
	wantSent(t, a, one, 1) // reports the count of those before it
	receive(t, b, 1)
	if lost := int(b.Stats().Overflow); got+lost != sent || lost == 0 {
		t.Errorf("%d sent, %d received, %d lost", sent, got, lost)
	}
	if memory := 425984 / truesize(64); got < memory*9/10 || got > memory*11/10 {
		t.Errorf("the buffer held %d small packets, the in-memory network would have held %d", got, memory)
	}
}

func TestWarningNamesTheSysctl(t *testing.T) {
	g := listenAt(t, netip.MustParseAddr("127.77.24.1"), Config{}).(*group)
	g.ports[0].(*port).stats.ReceiveBuffer = 425984
	if w := g.check(&Config{ReceiveBuffer: 8 << 20}); len(w) != 1 || !strings.Contains(w[0], "net.core.rmem_max=8388608") {
		t.Errorf("warnings %q", w)
	}
}

func TestSecondOwner(t *testing.T) {
	const variable, addr = "UDP_TEST_LISTEN", "127.77.25.1"
	if os.Getenv(variable) != "" { // the second process
		_, err := Listen(netip.MustParseAddr(addr), Config{Shards: 2})
		os.Stdout.WriteString(err.Error())
		os.Exit(0)
	}
	g := listenAt(t, netip.MustParseAddr(addr), Config{Shards: 2})
	for i := range 1200 { // more than the lock's backlog
		var inUse *InUseError
		_, err := Listen(g.Addr(), Config{})
		if !errors.As(err, &inUse) || i == 0 && !strings.HasPrefix(err.Error(), "this process already is the RoCEv2 endpoint of "+addr) {
			t.Fatalf("second Listen: %v", err)
		}
	}
	g.Close()
	listenAt(t, netip.MustParseAddr(addr), Config{Shards: 2})
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondOwner$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d already is the RoCEv2 endpoint of %s: stop it, or use another address of this machine (a host's is set by --host-traddr)", os.Getpid(), addr)
	if string(out) != want {
		t.Errorf("the second process says %q, want %q", out, want)
	}
}

func TestPortTaken(t *testing.T) {
	addr := netip.MustParseAddr("127.77.26.1")
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, roce)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = Listen(addr, Config{Shards: 2})
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "4791") {
		t.Fatalf("error %v, want that port 4791 is taken", err)
	}
	c.Close()
	listenAt(t, addr, Config{}) // the lock was released
}

func TestForeignAddress(t *testing.T) {
	const addr = "198.51.100.1"
	_, err := Listen(netip.MustParseAddr(addr), Config{})
	if !errors.Is(err, unix.EADDRNOTAVAIL) || !strings.HasPrefix(err.Error(), addr+" is not an address of this machine") {
		t.Errorf("error %v, want that the address is not ours", err)
	}
}

func TestMTU(t *testing.T) {
	g := listenAt(t, netip.MustParseAddr("127.77.27.1"), Config{})
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("no interface called lo")
	}
	for _, dst := range []netip.Addr{{}, g.Addr(), netip.MustParseAddr("127.77.27.9")} {
		want := lo.MTU
		if dst.IsValid() {
			want = min(want, 65535) // the largest IPv4 packet
		}
		if n, err := g.MTU(dst); err != nil || n != want {
			t.Errorf("MTU to %v is %d, %v; want %d", dst, n, err, want)
		}
	}
	if n, err := g.MTU(netip.IPv6Loopback()); err == nil {
		t.Errorf("MTU to an IPv6 address is %d", n)
	}
}

// TestMTUWithin: the MTU towards another address of this machine is limited by that address's interface, although the
// packets do not take it.
func TestMTUWithin(t *testing.T) {
	g := listenAt(t, netip.MustParseAddr("127.77.27.2"), Config{})
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil || !prefix.Addr().Is4() || i.Flags&net.FlagUp == 0 {
				continue
			}
			if n, err := g.MTU(prefix.Addr()); err != nil || n > i.MTU {
				t.Errorf("MTU to %v is %d, %v; its interface %s has %d", prefix.Addr(), n, err, i.Name, i.MTU)
			}
		}
	}
}

func TestWatch(t *testing.T) {
	p := listenAt(t, netip.MustParseAddr("127.77.28.1"), Config{}).Ports()[0]
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := p.Watch(int(r.Fd())); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p.Wait(2 * time.Millisecond)
	if time.Since(start) < 2*time.Millisecond {
		t.Error("Wait ended although nothing is readable")
	}
	w.Write([]byte{1})
	start = time.Now()
	p.Wait(5 * time.Second)
	if time.Since(start) > 4*time.Second {
		t.Error("a readable descriptor does not end Wait")
	}
	if p.Watch(-1) == nil {
		t.Error("watching no descriptor succeeds")
	}
}

func TestWaitIsPrecise(t *testing.T) {
	p := listenAt(t, netip.MustParseAddr("127.77.29.1"), Config{}).Ports()[0].(*port)
	const wanted = 1500 * time.Microsecond
	var d time.Duration
	for begin := time.Now(); d < wanted && time.Since(begin) < 10*time.Second; {
		start := time.Now()
		p.Wait(wanted) // ended early by signals to the thread, as sent by a garbage collection
		d = time.Since(start)
	}
	if d < wanted || d > 4*time.Second {
		t.Errorf("waited %v, want %v or a little more", d, wanted)
	}
	p.Wake()
	p.Wait(-1)
}

// A blocked port must not hold the runtime's P, which a garbage collection needs.
func TestWaitGivesTheProcessorBack(t *testing.T) {
	p := listenAt(t, netip.MustParseAddr("127.77.31.1"), Config{}).Ports()[0]
	done := make(chan struct{})
	go func() { // ends by the Wake below
		defer close(done)
		p.Wait(20 * time.Second)
	}()
	for !p.(*port).wait.Asleep() {
		runtime.Gosched()
	}
	start := time.Now()
	runtime.GC()
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("a garbage collection took %v", d)
	}
	p.Wake()
	<-done
}
