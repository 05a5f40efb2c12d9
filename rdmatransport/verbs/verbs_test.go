//go:build verbs && cgo && linux

package verbs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestRing wraps a queue several times: unsignaled requests are removed with the next signaled one, and requests that
// wait for the end last.
func TestRing(t *testing.T) {
	r := newRing(5, nil)
	r.head, r.device, r.tail = sequenceMask-2, sequenceMask-2, sequenceMask-2 // about to wrap
	for round := range 10 {
		var last sequence
		for i := range 5 {
			last = r.push(entry{id: uint64(10*round + i), internal: i == 1})
		}
		if r.users != 4 || r.deviceLength() != 5 {
			t.Fatalf("round %d: %d users, %d with the device, want 4 and 5", round, r.users, r.deviceLength())
		}
		if e, ok := r.complete(last); !ok || e.id != uint64(10*round+4) {
			t.Fatalf("round %d: completed %d, %v", round, e.id, ok)
		}
		if r.length() != 0 || r.users != 0 {
			t.Fatalf("round %d: %d left, %d users", round, r.length(), r.users)
		}
		if _, ok := r.complete(last); ok {
			t.Fatalf("round %d: completed twice", round)
		}
	}
}

func TestRingAbandoned(t *testing.T) {
	r := newRing(4, nil)
	first := r.push(entry{id: 1})
	r.push(entry{id: 2})
	r.abandon()
	r.push(entry{id: 3})
	if _, ok := r.complete(first); ok || r.deviceLength() != 0 {
		t.Errorf("a request of a device that is gone completed")
	}
	for want := uint64(1); want <= 3; want++ {
		if e := r.pop(); e.id != want {
			t.Errorf("flushed %d, want %d", e.id, want)
		}
	}
	if r.length() != 0 || r.deviceLength() != 0 {
		t.Errorf("%d left, %d with the device", r.length(), r.deviceLength())
	}
}

func TestAddresses(t *testing.T) {
	for _, s := range []string{"192.0.2.1:4420", "[2001:db8::1]:65535", "[fe80::1%lo]:1", "0.0.0.0:0", "[::]:0"} {
		want := netip.MustParseAddrPort(s)
		c := toC(want)
		if got := fromC(&c); got != want {
			t.Errorf("%v becomes %v", want, got)
		}
	}
	mapped := toC(netip.MustParseAddrPort("[::ffff:192.0.2.1]:7"))
	if got := fromC(&mapped); got != netip.MustParseAddrPort("192.0.2.1:7") {
		t.Errorf("a mapped address becomes %v", got)
	}
}

func TestAckTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]uint8{
		0: 17, time.Microsecond: 1, 8192: 1, 8193: 2, 500 * time.Millisecond: 17, time.Hour: 30, 1000 * time.Hour: 31,
	} {
		c := Config{AckTimeout: timeout}
		if got, bound := c.ackTimeout(); got != want || bound != (timeout == 0) {
			t.Errorf("%v: exponent %d, a bound %v; want %d, %v", timeout, got, bound, want, timeout == 0)
		}
	}
}

// TestOpenSaysWhatIsMissing opens an address that no RDMA device has. The machine may lack the libraries, the
// kernel's module, or both.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	for _, open := range []func() error{
		func() error { _, err := Open(Config{Addr: netip.MustParseAddr("192.0.2.1")}); return err },
		func() error { _, err := DeviceName(netip.MustParseAddr("192.0.2.1")); return err },
	} {
		err := open()
		var library *LibraryError
		var device *NoDeviceError
		switch {
		case err == nil:
			t.Error("192.0.2.1 is an RDMA device")
		case errors.As(err, &library):
			if !strings.Contains(err.Error(), "libibverbs1 librdmacm1") {
				t.Errorf("%v does not say what to install", err)
			}
		case errors.As(err, &device):
			if !strings.Contains(err.Error(), "192.0.2.1") || !strings.Contains(err.Error(), "softroce") {
				t.Errorf("%v does not say what to do", err)
			}
		case !strings.Contains(err.Error(), "rdma_cm") && !strings.Contains(err.Error(), "modprobe rdma_ucm"):
			t.Errorf("%v does not say what to do", err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for what, cfg := range map[string]Config{
		"too many shards":  {Addr: netip.MustParseAddr("192.0.2.1"), Shards: MaxShards + 1},
		"fewer than none":  {Addr: netip.MustParseAddr("192.0.2.1"), Shards: -1},
		"no address":       {},
		"wildcard address": {Addr: netip.IPv4Unspecified()},
	} {
		if d, err := Open(cfg); err == nil {
			d.Close()
			t.Errorf("%s: opened", what)
		}
	}
}

func TestFailureHints(t *testing.T) {
	for errno, hint := range map[unix.Errno]string{
		unix.ENOMEM: "ulimit -l", unix.EPERM: "/dev/infiniband", unix.EIO: "gone", unix.EINVAL: "registering",
	} {
		err := failureOf(errno, "registering 4096 bytes")
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%v: %v, want %q in it", errno, err, hint)
		}
	}
}

// TestWindows: rdma_rxe has windows only if enabled, and a device without windows not even then.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		has, rxe, loose, want bool
	}{
		{has: true, want: true},
		{has: true, rxe: true},
		{has: true, rxe: true, loose: true, want: true},
		{rxe: true, loose: true},
	} {
		d := device{cfg: Config{LooseWindows: c.loose}}
		if c.has {
			d.hw.windows = 1
		}
		if c.rxe {
			d.hw.rxe = 1
		}
		if got := d.describe().Windows; got != c.want {
			t.Errorf("%+v: windows %v", c, got)
		}
	}
}

// TestIWARP tests the differences of iWARP devices: memory that READs fill is writable by the peer, at the queue pair
// too, and there is no immediate data.
func TestIWARP(t *testing.T) {
	write := accessFlags(rdmatransport.AccessRemoteWrite)
	for _, iwarp := range []bool{false, true} {
		var d device
		d.hw.max_sge, d.hw.max_read_sge = 6, 6
		if iwarp {
			d.hw.iwarp, d.hw.max_read_sge = 1, 1
		}
		d.attrs = d.describe()
		if a := &d.attrs; a.Immediate == iwarp || a.MaxSGE != 6 || (a.MaxReadSGE == 1) != iwarp {
			t.Errorf("iWARP %v: %+v", iwarp, a)
		}
		if got := d.accessFor(rdmatransport.AccessLocalWrite)&write != 0; got != iwarp {
			t.Errorf("iWARP %v: memory that READs fill can be written by the peer: %v", iwarp, got)
		}
		if d.accessFor(rdmatransport.AccessRemoteRead)&write != 0 {
			t.Errorf("iWARP %v: memory that the peer may read can be written", iwarp)
		}
		if got := d.remoteAccess(true) == write; got != iwarp || !iwarp && d.remoteAccess(true) != 0 {
			t.Errorf("iWARP %v: remote access %#x of a queue pair with none", iwarp, d.remoteAccess(true))
		}
		q := queuePair{cq: &completionQueue{dev: &d}, maxSGE: 6}
		two := []rdmatransport.SGE{{}, {}}
		for what, c := range map[string]struct {
			wr      rdmatransport.SendWR
			refused bool
		}{
			"immediate data":       {rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagImmediate}, iwarp},
			"READ into 2 elements": {rdmatransport.SendWR{Op: rdmatransport.OpRead, SGL: two}, iwarp},
			"WRITE of 2 elements":  {rdmatransport.SendWR{Op: rdmatransport.OpWrite, SGL: two}, false},
		} {
			if err := q.checkSend(&c.wr); (err != nil) != c.refused {
				t.Errorf("iWARP %v: %s: %v", iwarp, what, err)
			}
		}
	}
}

// TestDMABufFailures: missing support for dma-bufs is distinguished from an invalid dma-buf.
func TestDMABufFailures(t *testing.T) {
	for errno, want := range map[unix.Errno]struct {
		missing bool
		text    string
	}{
		unix.ENOSYS:     {true, "rdma-core 34"},
		unix.EOPNOTSUPP: {true, "rxe0 port 1"},
		unix.EINVAL:     {false, "4096 bytes of a dma-buf"},
	} {
		err := dmabufFailure(errno, "rxe0 port 1", 4096)
		if errors.Is(err, ErrNoDMABuf) != want.missing || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestRejections: InfiniBand and RoCE have reject reasons, iWARP has an errno and perhaps data.
func TestRejections(t *testing.T) {
	for _, c := range []struct {
		status int
		data   []byte
		want   rdmatransport.RejectReason
	}{
		{28, []byte{1}, rdmatransport.RejectConsumer},
		{8, nil, rdmatransport.RejectInvalidServiceID},
		{-int(unix.ECONNREFUSED), nil, rdmatransport.RejectInvalidServiceID},
		{-int(unix.ECONNREFUSED), []byte{1}, rdmatransport.RejectConsumer},
	} {
		e := cmEvent{status: c.status, data: c.data}
		var reject *rdmatransport.RejectError
		if !errors.As(e.rejection(), &reject) || reject.Reason != c.want {
			t.Errorf("status %d, %d bytes: %v, want %v", c.status, len(c.data), reject, c.want)
		}
	}
}
