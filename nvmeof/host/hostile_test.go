package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestHonestLiar: the fake controller itself is acceptable, so that refusals are due to what a test changes.
func TestHonestLiar(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		c, err := l.host.Connect(context.Background(), l.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Namespace(context.Background(), 1); err != nil {
			t.Error(err)
		}
		if c.IOQueues() != 2 || c.QueueDepth() != 128 || c.MaxTransfer() != 1<<20 {
			t.Errorf("%d queues of %d, transfers of %d", c.IOQueues(), c.QueueDepth(), c.MaxTransfer())
		}
		if err := c.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestConnectionAnswers is row 100, and the texts of rejections.
func TestConnectionAnswers(t *testing.T) {
	cases := []struct {
		name string
		lie  func(*liar)
		want string
	}{
		{"record format", func(l *liar) { l.reject = capsule.RejectInvalidRECFMT }, "invalid record format (NVMe status 2)"},
		{"no resources", func(l *liar) { l.reject = capsule.RejectNoResources }, "no resources (NVMe status 6)"},
		{"unknown status", func(l *liar) { l.reject = 999 }, "reject status 999"},
		{"controller 0", func(l *liar) { l.cntlid = 0 }, "reserved identifier 0x0"},
		{"controller FFF0h", func(l *liar) { l.cntlid = 0xfff0 }, "reserved identifier 0xfff0"},
		{"large pages", func(l *liar) { l.cap.MPSMIN = 4 }, "pages of at least 65536 bytes"},
		{"fatal", func(l *liar) { l.csts = capsule.CSTSFatal }, "fatal error"},
		{"never ready", func(l *liar) { l.csts = 0 }, "not ready after 500ms"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLiar(t)
				c.lie(l)
				l.wantRefused(l.options(), c.want)
			})
		})
	}
}

// TestReplies is row 100 as well: private data of a controller that accepts the connection.
func TestReplies(t *testing.T) {
	reply := func(d capsule.AcceptData) []byte {
		b := make([]byte, capsule.AcceptDataSize)
		d.Encode(b)
		return b
	}
	cases := []struct {
		name string
		data []byte
		want string // empty: accepted
	}{
		{"as it should be", reply(capsule.AcceptData{CRQSIZE: 32}), ""},
		{"CRQSIZE 0", reply(capsule.AcceptData{}), ""},
		{"CRQSIZE FFFFh", reply(capsule.AcceptData{CRQSIZE: 0xffff}), ""},
		{"longer", append(reply(capsule.AcceptData{CRQSIZE: 32}), make([]byte, 164)...), ""},
		{"record format", reply(capsule.AcceptData{RECFMT: 5, CRQSIZE: 32}), "record format 5"},
		{"short", reply(capsule.AcceptData{})[:31], "reply to the connection request"},
		{"nothing", nil, "reply to the connection request"},
	}
	for _, c := range cases {
		err := checkReply(rdmatransport.ConnReply{PrivateData: c.data})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestIdentifyLies is row 101.
func TestIdentifyLies(t *testing.T) {
	type id = *capsule.IdentifyController
	cases := []struct {
		name string
		lie  func(id)
		want string // empty: clamped
	}{
		{"another CNTLID", func(i id) { i.CNTLID = 8 }, "identifier is 8 in Identify data, but 7"},
		{"no keyed SGLs", func(i id) { i.SGLS = 1 }, "keyed SGLs"},
		{"IOCCSZ 3", func(i id) { i.IOCCSZ = 3 }, "too few for a command"},
		{"IORCSZ 0", func(i id) { i.IORCSZ = 0 }, "too few for a completion"},
		{"ICDOFF 1", func(i id) { i.ICDOFF = 1 }, "in-capsule data at offset"},
		{"no keep alive", func(i id) { i.KAS = 0 }, "does not support keep alive"},
		{"SQES", func(i id) { i.SQES = 0x77 }, "submission queue entries"},
		{"MDTS 255", func(i id) { i.MDTS = 255 }, ""},
		{"MAXCMD 0", func(i id) { i.MAXCMD = 0 }, ""},
		{"MAXCMD 1", func(i id) { i.MAXCMD = 1 }, ""},
		{"IOCCSZ huge", func(i id) { i.IOCCSZ = 0xffffffff }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLiar(t)
				l.identify = c.lie
				if c.want != "" {
					l.wantRefused(l.options(), c.want)
					return
				}
				controller, err := l.host.Connect(context.Background(), l.options())
				if err != nil {
					t.Fatal(err)
				}
				if m := controller.limits; m.Write < 4096 || m.Write > 1<<20 || m.inCapsule < 0 || m.inCapsule > 16<<10 || controller.QueueDepth() < 2 {
					t.Errorf("limits %+v, depth %d", m, controller.QueueDepth())
				}
			})
		})
	}
}

func TestNamespaceLies(t *testing.T) {
	type id = *capsule.IdentifyNamespace
	cases := []struct {
		name string
		lie  func(id)
		want string
	}{
		{"LBADS 0", func(n id) { n.LBAF[0].LBADS = 0 }, "blocks of 2^0"},
		{"LBADS 8", func(n id) { n.LBAF[0].LBADS = 8 }, "blocks of 2^8"},
		{"LBADS 33", func(n id) { n.LBAF[0].LBADS = 33 }, "blocks of 2^33"},
		{"LBADS 255", func(n id) { n.LBAF[0].LBADS = 255 }, "blocks of 2^255"},
		{"NSZE 2^64-1", func(n id) { n.NSZE = ^uint64(0) }, "more than 8 EiB"},
		{"NSZE 0", func(n id) { n.NSZE = 0 }, "not active"},
		{"metadata", func(n id) { n.LBAF[0].MS = 8 }, "8 bytes of metadata"},
	}
	for _, c := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.ns = c.lie
			controller, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := controller.Namespace(context.Background(), 1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.nsids = []capsule.NSID{5, 5}
		controller, err := l.host.Connect(context.Background(), l.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := controller.Namespaces(context.Background()); err == nil || !strings.Contains(err.Error(), "not in ascending order") {
			t.Errorf("a list that does not ascend: %v", err)
		}
	})
}

// TestLongANALog: the cost of a long log is linear in its length, not quadratic.
func TestLongANALog(t *testing.T) {
	const groups, each = 4000, 60
	log := capsule.ANALog{ChangeCount: 3}
	for g := range groups {
		ids := make([]capsule.NSID, each)
		for i := range ids {
			ids[i] = capsule.NSID(g*each + i + 1)
		}
		log.Groups = append(log.Groups, capsule.ANALogGroup{Group: capsule.ANAGroup(g + 1), State: capsule.ANAOptimized, Namespaces: ids})
	}
	page := make([]byte, log.Size()+logChunk)
	log.Encode(page)
	for _, c := range []struct {
		name       string
		namespaces uint32 // number that the controller reports
		want       string
	}{
		{"as long as it may be", groups * each, ""},
		{"longer", groups*each - 1, "longer than the controller's numbers of groups and namespaces allow"},
	} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(id *capsule.IdentifyController) { id.NANAGRPID, id.MNAN = groups, c.namespaces }
			l.log = func(off uint64, b []byte) { copy(b, page[off:]) }
			controller, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := controller.Logs().ANA(context.Background(), false)
			runtime.ReadMemStats(&after)
			if c.want == "" && (err != nil || len(got.Groups) != groups || len(got.Groups[groups-1].Namespaces) != each) {
				t.Errorf("%s: %d groups, %v", c.name, len(got.Groups), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			used := int(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%s: a log of %d bytes took %d", c.name, log.Size(), used)
			if used > 24*log.Size() {
				t.Errorf("that is %d times as much", used/log.Size())
			}
		})
	}
}

// TestDiscoveryLies is row 102.
func TestDiscoveryLies(t *testing.T) {
	generation := uint64(0)
	cases := []struct {
		name string
		log  func(off uint64, b []byte)
		want string
	}{
		{"2^63 entries", func(_ uint64, b []byte) { capsule.DiscoveryHeader{NUMREC: 1 << 63}.Encode(b) }, "this host accepts at most 4096"},
		{"record format", func(_ uint64, b []byte) { capsule.DiscoveryHeader{RECFMT: 1}.Encode(b) }, "record format 1"},
		{"changing for ever", func(_ uint64, b []byte) {
			generation++
			capsule.DiscoveryHeader{GENCTR: generation}.Encode(b)
		}, "each of 10 attempts"},
	}
	for _, c := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { *i = capsule.IdentifyController{CNTLID: l.cntlid, SGLS: i.SGLS} }
			l.log = c.log
			_, err := l.host.Discover(context.Background(), Options{Traddr: l.addr.Addr()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
}

// TestDiscoveryText is row 102 as well: unterminated names and escape sequences are kept unchanged; they are escaped
// when printed.
func TestDiscoveryText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.identify = func(i *capsule.IdentifyController) { *i = capsule.IdentifyController{CNTLID: l.cntlid, SGLS: i.SGLS} }
		l.log = func(off uint64, b []byte) {
			if off == 0 {
				capsule.DiscoveryHeader{GENCTR: 1, NUMREC: 3}.Encode(b)
				return
			}
			for i := range b {
				b[i] = "\x1b\xff\n\x00"[i/capsule.DiscoveryEntrySize]
			}
		}
		log, err := l.host.Discover(context.Background(), Options{Traddr: l.addr.Addr()})
		if err != nil || len(log.Entries) != 3 {
			t.Fatalf("%d entries, %v", len(log.Entries), err)
		}
		for i := range log.Entries {
			e := &log.Entries[i]
			for _, s := range []string{e.SubNQN.String(), capsule.Text(e.TRADDR[:]), capsule.Text(e.TRSVCID[:])} {
				if p := nvmeof.Printable(s); strings.ContainsAny(p, "\x1b\n") || len(p) > 1100 {
					t.Errorf("entry %d is printed as %q", i, p)
				}
			}
		}
	})
}

// TestSilence is row 103: whatever gets no response fails in time, and nothing leaks.
func TestSilence(t *testing.T) {
	cases := map[string]func(*capsule.Command) bool{
		"Connect": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsConnect
		},
		"Connect of an I/O queue": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsConnect && c.Connect().QID == 2
		},
		"Property Get": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertyGet
		},
		"Identify": func(c *capsule.Command) bool { return capsule.AdminOpcode(c.Opcode) == capsule.AdminIdentify },
	}
	for name, silent := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.silent = silent
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := l.host.Connect(ctx, l.options()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("no answer to %s: %v, want the deadline's end", name, err)
			}
			o := l.options()
			o.Timeout = 2 * time.Second
			start := time.Now()
			if _, err := l.host.Connect(context.Background(), o); !errors.Is(err, fabric.ErrTimeout) {
				t.Errorf("no answer to %s: %v, want %v", name, err, fabric.ErrTimeout)
			}
			if d := time.Since(start); d > 4*time.Second {
				t.Errorf("no answer to %s was noticed after %v", name, d)
			}
		})
	}
}

// TestKeepAliveUnanswered: the controller is given up after KATO.
func TestKeepAliveUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.silent = func(c *capsule.Command) bool { return capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive }
		o := l.options()
		o.KeepAliveTmo = 4 * time.Second
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-c.Done()
		if d := time.Since(start); d < 4*time.Second || d > 9*time.Second {
			t.Errorf("controller was given up after %v, KATO is 4 s", d)
		}
		if !errors.Is(c.Err(), ErrKeepAlive) {
			t.Errorf("controller was given up for %v, want %v", c.Err(), ErrKeepAlive)
		}
	})
}

// TestNoKeepAliveInShutdown: while a controller takes long to shut down, for example because packets are lost, it gets
// no Keep Alive, which it could only fail.
func TestNoKeepAliveInShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		var shutting bool
		var late atomic.Int32
		l.silent = func(c *capsule.Command) bool {
			switch {
			case capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive && shutting:
				late.Add(1)
			case c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertySet:
				shutting = capsule.CC(c.Property().Value).Shutdown() != capsule.ShutdownNone
			case c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertyGet:
				return shutting // CSTS
			}
			return false
		}
		o := l.options()
		o.KeepAliveTmo = 2 * time.Second
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Disconnect(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed: %v, want a deadline", err)
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d keep alives after the shutdown began", n)
		}
	})
}

// TestShortData is row 97 as well: a controller completes a Read or Identify without having sent all of its data. The
// provider counts the data; with shared keys this is impossible.
func TestShortData(t *testing.T) {
	for _, shared := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			network := softroce.NewNetwork(1)
			l := newLiarOn(t, func(at netip.Addr) (rdmatransport.Device, error) {
				return softroce.Open(softroce.Config{Addr: at, Shards: 1, Network: network})
			})
			sent := 0
			l.io = func(q *liarQueue, c *fabric.Command) {
				if sent == 0 {
					c.Respond(0, 0)
					return
				}
				pieces := q.piece(c)
				pieces[0].Buf = pieces[0].Buf[:min(sent, c.Length())]
				c.RespondData(pieces, 0)
			}
			o := l.options()
			o.SharedKeys = shared
			c, err := l.host.Connect(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.Namespace(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			buffers, err := c.NewBuffers(8192)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range [][]byte{make([]byte, 4096), make([]byte, 700), buffers.Bytes()[:4096]} {
				for _, s := range []int{0, 512, 4096} {
					l.shard.Call(func() { sent = s })
					_, err := n.ReadAt(b, 0)
					if want := s < len(b) && !shared; errors.Is(err, ErrShortData) != want || err != nil && !want {
						t.Errorf("shared keys %v: %d of %d bytes: %v", shared, s, len(b), err)
					}
				}
			}
			l.shard.Call(func() {
				l.empty = func(cmd *capsule.Command) bool { return capsule.AdminOpcode(cmd.Opcode) == capsule.AdminIdentify }
			})
			if _, err := c.Namespaces(context.Background()); errors.Is(err, ErrShortData) == shared {
				t.Errorf("shared keys %v: an Identify without data: %v", shared, err)
			}
			if err := errors.Join(buffers.Close(), c.Disconnect(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEndlessList is row 101 as well: a list of namespaces that never ends.
func TestEndlessList(t *testing.T) {
	for _, tt := range []struct {
		nn, mnan uint32
		want     int
	}{{0xfffffffe, 0, 1 << 20}, {0, 0, 1 << 20}, {5000, 0, 5000}, {0xfffffffe, 3000, 3000}, {1000, 3000, 1000}} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { i.NN, i.MNAN = tt.nn, tt.mnan }
			l.list = func(after capsule.NSID, b []byte) {
				ids := make([]capsule.NSID, capsule.NamespaceListEntries)
				for i := range ids {
					ids[i] = after + 1 + capsule.NSID(i)
				}
				capsule.PutNamespaceList(b, ids)
			}
			c, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			ids, err := c.Namespaces(context.Background())
			if want := fmt.Sprintf("more namespaces than the %d that", tt.want); err == nil || ids != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("NN %d, MNAN %d: %d namespaces, %v", tt.nn, tt.mnan, len(ids), err)
			}
		})
	}
}

// TestEventStorm is row 103 as well: events of a controller that sends them without a pause are received at a bounded
// rate.
func TestEventStorm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.event = func() (capsule.AsyncEvent, bool) {
			return capsule.AsyncEvent{Type: capsule.EventTypeNotice, Info: capsule.NoticeNamespaceChanged}, true
		}
		var reported atomic.Int32
		o := l.options()
		o.Event = func(capsule.AsyncEvent) { reported.Add(1) }
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if n := reported.Load(); n < eventBurst {
			t.Errorf("%d events of a burst", n)
		}
		before := reported.Load()
		time.Sleep(10 * time.Second)
		if n := reported.Load() - before; n < 150 || n > 201 {
			t.Errorf("%d events in ten seconds", n)
		}
		if err := c.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
