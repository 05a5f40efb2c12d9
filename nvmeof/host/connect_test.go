package host

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func TestConnect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512), newStore(t, 2<<20, 4096)}, host: Config{Shards: 2}})
		o := r.options()
		o.NrIOQueues, o.QueueSize = 3, 64
		c := r.connect(o)
		if c.IOQueues() != 3 || c.QueueDepth() != 64 || c.ID() == 0 || c.Err() != nil {
			t.Errorf("controller %d with %d queues of %d, error %v", c.ID(), c.IOQueues(), c.QueueDepth(), c.Err())
		}
		if v := c.Version(); v < capsule.MakeVersion(1, 3, 0) {
			t.Errorf("version %v", v)
		}
		ids, err := c.Namespaces(context.Background())
		if err != nil || len(ids) != 2 || ids[0] != 1 || ids[1] != 2 {
			t.Errorf("namespaces %v, %v", ids, err)
		}
		n, err := c.Namespace(context.Background(), 2)
		if err != nil || n.Size() != 2<<20 || n.ID() != 2 {
			t.Fatalf("namespace 2: %v", err)
		}
		if n.Identifiers().UUID == ([16]byte{}) {
			t.Error("namespace 2 has no UUID")
		}
		if _, err := c.Namespace(context.Background(), 3); err == nil {
			t.Error("a namespace that does not exist was opened")
		}
		if got := len(r.target.Controllers()); got != 1 {
			t.Errorf("target has %d controllers, want 1", got)
		}
		if err := c.Disconnect(context.Background()); err != nil {
			t.Fatalf("Disconnect: %v", err)
		}
		synctest.Wait()
		if got := len(r.target.Controllers()); got != 0 {
			t.Errorf("target has %d controllers after Disconnect", got)
		}
		select {
		case <-c.Done():
		default:
			t.Error("Done is open after Disconnect")
		}
		if err := c.Disconnect(context.Background()); err != nil {
			t.Errorf("second Disconnect: %v", err)
		}
		for what, err := range map[string]error{
			"Err":        c.Err(),
			"Flush":      n.Flush(),
			"NewBuffers": second(c.NewBuffers(4096)),
			"ReadAt":     second(n.ReadAt(make([]byte, 10), 0)),
			"OpenQueue":  second(n.OpenQueue(1, nil)),
			"Namespaces": second(c.Namespaces(context.Background())),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Disconnect: %v, want %v", what, err, ErrClosed)
			}
		}
	})
}

// TestConnectRefused: the error of a refused connection says why.
func TestConnectRefused(t *testing.T) {
	cases := []struct {
		name   string
		change func(r *rig, o *Options)
		want   string
		is     error
	}{
		{"unknown subsystem", func(_ *rig, o *Options) { o.NQN = "nqn.2014-08.org.example:other" }, "no such subsystem", nil},
		{"host not allowed", func(r *rig, _ *Options) { r.sub.AllowAnyHost(false) }, "does not allow this host", nil},
		{"nobody listens", func(_ *rig, o *Options) { o.Trsvcid = 4421 }, "nothing listens there", nil},
		{"nobody there", func(_ *rig, o *Options) { o.Traddr = netip.MustParseAddr("192.0.2.99") }, "no answer", rdmatransport.ErrUnreachable},
		{"queue too large for the target", func(_ *rig, o *Options) { o.QueueSize = 1024; o.NrIOQueues = 1 }, "", nil},
		{"no address", func(_ *rig, o *Options) { o.Traddr = netip.Addr{} }, "Traddr is missing", nil},
		{"no name", func(_ *rig, o *Options) { o.NQN = "" }, "NQN is missing", nil},
		{"bad name", func(_ *rig, o *Options) { o.NQN = nvmeof.NQN(strings.Repeat("x", 224)) }, "longer than 223", nil},
		{"bad host name", func(_ *rig, o *Options) { o.HostNQN = "a\nb" }, `"a\nb"`, nil},
		{"queue of one", func(_ *rig, o *Options) { o.QueueSize = 1 }, "queue size 1", nil},
		{"too many queues", func(_ *rig, o *Options) { o.NrIOQueues = 1000 }, "1000 I/O queues", nil},
		{"little memory", func(_ *rig, o *Options) { o.BounceMemory = 5 }, "bounce memory", nil},
		{"short keep alive", func(_ *rig, o *Options) { o.KeepAliveTmo = 1 }, "Options.KeepAliveTmo is 1ns: want at least 1ms", nil},
		{"long keep alive", func(_ *rig, o *Options) { o.KeepAliveTmo = 1 << 62 }, "too long", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
				o := r.options()
				c.change(r, &o)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				controller, err := r.host.Connect(ctx, o)
				if c.want == "" { // the controller limits the size
					if err != nil || controller.QueueDepth() != 128 {
						t.Errorf("%v", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("error %v, want it to say %q", err, c.want)
				}
			})
		})
	}
}

// TestConnectLeavesNothing: a refused or ended connection leaks nothing.
func TestConnectLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		bad := r.options()
		bad.NQN = "nqn.2014-08.org.example:other"
		for range 20 {
			if _, err := r.host.Connect(context.Background(), bad); err == nil {
				t.Fatal("connected to a subsystem that does not exist")
			}
			c := r.connect(r.options())
			if _, err := c.NewBuffers(4096); err != nil {
				t.Fatal(err)
			}
			if err := c.Disconnect(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, s := range r.host.shards {
			attached := -1
			s.Call(func() { attached = int(s.Budget().Used()) })
			if attached != 0 {
				t.Errorf("%d bytes of a budget are not given back", attached)
			}
		}
		if got := len(r.target.Controllers()); got != 0 {
			t.Errorf("target has %d controllers left", got)
		}
	})
}

func TestDiscover(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		for i := range 9 { // more than one chunk of the log
			s, err := r.target.AddSubsystem(target.SubsystemConfig{NQN: testNQN + nvmeof.NQN(rune('a'+i))})
			if err != nil {
				t.Fatal(err)
			}
			s.AllowAnyHost(true)
		}
		log, err := r.host.Discover(context.Background(), Options{Traddr: r.addr.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range log.Entries {
			e := &log.Entries[i]
			if e.SUBTYPE == capsule.SubsystemNVM && strings.HasPrefix(e.SubNQN.String(), testNQN) {
				found++
				if capsule.Text(e.TRADDR[:]) != r.addr.Addr().String() || capsule.Text(e.TRSVCID[:]) != "4420" || e.TRTYPE != capsule.TransportRDMA {
					t.Errorf("entry %d: %s %s %v", i, e.TRADDR[:20], e.TRSVCID[:5], e.TRTYPE)
				}
			}
		}
		if found != 10 {
			t.Errorf("%d subsystems found of 10", found)
		}
		if len(r.host.controllers) != 0 {
			t.Error("the discovery controller is still connected")
		}
	})
}

// TestEvent: a namespace that is added causes an event.
func TestEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		more := []backend.Store{newStore(t, 1<<20, 512), newStore(t, 1<<20, 512)}
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		events := make(chan capsule.AsyncEvent, 4)
		o := r.options()
		o.Events = events
		c := r.connect(o)
		for want := range 2 {
			if _, err := r.sub.AddNamespace(target.NamespaceConfig{Store: more[want]}); err != nil {
				t.Fatal(err)
			}
			e := <-events
			if e.Type != capsule.EventTypeNotice || e.Info != capsule.NoticeNamespaceChanged || KindOf(e) != EventNamespaces {
				t.Errorf("event %+v", e)
			}
			b := make([]byte, capsule.NamespaceListSize)
			if err := c.Logs().Read(context.Background(), capsule.NSIDBroadcast, capsule.GetLogPage{LID: e.LID}, b); err != nil {
				t.Fatal(err)
			}
			if got := capsule.NSIDAt(b, 0); got != capsule.NSID(2+want) {
				t.Errorf("changed namespace %d, want %d", got, 2+want)
			}
		}
	})
}

// TestKeepAlive: an idle connection stays up, and is lost soon after its target ends.
func TestKeepAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		o := r.options()
		o.KeepAliveTmo = 2 * time.Second
		c := r.connect(o)
		time.Sleep(time.Minute)
		if err := c.Err(); err != nil {
			t.Fatalf("an idle controller was lost: %v", err)
		}
		if _, err := r.namespace(c).ReadAt(make([]byte, 512), 0); err != nil {
			t.Errorf("reading after a minute: %v", err)
		}
	})
}

// TestTargetDies: all outstanding requests fail.
func TestTargetDies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		q, err := n.OpenQueue(4, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.target.Close(); err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		if err := c.Err(); !errors.Is(err, rdmatransport.ErrDisconnected) {
			t.Errorf("controller was lost for %v, want %v", err, rdmatransport.ErrDisconnected)
		}
		if _, err := n.ReadAt(make([]byte, 512), 0); err == nil {
			t.Error("reading from a dead target")
		}
		b := make([]byte, 512)
		q.Submit([]backend.Request{{Tag: 5, Op: backend.OpRead, Length: 512, Buf: b}})
		if err := q.Wait(); err != nil {
			t.Fatal(err)
		}
		var rs [1]backend.Result
		if q.Poll(rs[:]) != 1 || rs[0].Tag != 5 || rs[0].Err == nil {
			t.Errorf("result %+v", rs[0])
		}
		if _, err := r.host.Connect(context.Background(), r.options()); err == nil {
			t.Error("connected to a dead target")
		}
	})
}

// TestHostCloses while a connection is being made.
func TestHostCloses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		o := r.options()
		o.Traddr = netip.MustParseAddr("192.0.2.99")
		result := make(chan error)
		go func() {
			_, err := r.host.Connect(context.Background(), o)
			result <- err
		}()
		synctest.Wait()
		if err := r.host.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-result; err == nil {
			t.Error("connected to nobody")
		}
		if _, err := r.host.Connect(context.Background(), o); !errors.Is(err, ErrClosed) {
			t.Errorf("Connect of a closed host: %v, want %v", err, ErrClosed)
		}
	})
}
