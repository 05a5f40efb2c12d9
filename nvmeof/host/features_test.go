package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestFeatures reads, changes and reads again the features of our target.
func TestFeatures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		o := r.options()
		o.NrIOQueues = 3
		c := r.connect(o)
		n, ctx := r.namespace(c), context.Background()
		check := func(what string, got, want any, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%s: %v, %v, want %v", what, got, err, want)
			}
		}
		queues, err := c.Features().NumberOfQueues(ctx)
		check("queues", queues, capsule.QueueCounts{Submission: 3, Completion: 3}, err)

		err = c.Features().SetEventConfig(ctx, capsule.EventSMART|capsule.EventANAChange)
		events, err2 := c.Features().EventConfig(ctx)
		check("events", events, capsule.EventSMART|capsule.EventANAChange, errors.Join(err, err2))

		err = c.Features().SetTemperatureThreshold(ctx, capsule.TemperatureThreshold{Kelvins: 320})
		limit, err2 := c.Features().TemperatureThreshold(ctx, 0, false)
		check("temperature", limit, uint16(320), errors.Join(err, err2))

		cache, err2 := c.Features().WriteCache(ctx)
		check("write cache", cache, true, errors.Join(err2, c.Features().SetWriteCache(ctx, true)))
		err = c.Features().SetWriteCache(ctx, false)
		cache, err2 = c.Features().WriteCache(ctx)
		check("write cache off", cache, false, errors.Join(err, err2))

		behavior := capsule.HostBehavior{ACRE: true}
		err = c.Features().SetHostBehavior(ctx, behavior)
		got, err2 := c.Features().HostBehavior(ctx)
		check("host behavior", got, behavior, errors.Join(err, err2))

		checkTimestamp(t, c)

		err = n.SetWriteProtection(ctx, capsule.WriteProtected)
		protection, err2 := n.WriteProtection(ctx)
		check("write protection", protection, capsule.WriteProtected, errors.Join(err, err2))
		if _, err := n.WriteAt(make([]byte, 512), 0); !errors.Is(err, backend.ErrReadOnly) {
			t.Errorf("writing what is protected: %v", err)
		}

		err = n.Reservations().SetMask(ctx, 1<<capsule.NoticeReservationReleased)
		mask, err2 := n.Reservations().Mask(ctx)
		check("reservation mask", mask, uint32(1<<capsule.NoticeReservationReleased), errors.Join(err, err2))

		can, err := c.Features().Capabilities(ctx, capsule.FeatureNamespaceWriteProtect, n.ID())
		check("capabilities", can, FeatureCapabilities{NamespaceSpecific: true, Changeable: true}, err)
	})
}

func checkTimestamp(t *testing.T, c *Controller) {
	t.Helper()
	ctx, now := context.Background(), time.Now()
	err := c.Features().SetTimestamp(ctx, now)
	time.Sleep(5 * time.Second)
	stamp, err2 := c.Features().Timestamp(ctx)
	if d := int64(stamp.Millis) - now.UnixMilli(); err != nil || err2 != nil || !stamp.Set || d < 5000 || d > 5100 {
		t.Errorf("timestamp %+v is %d ms later after 5 s, %v, %v", stamp, d, err, err2)
	}
	if err := c.Features().SetTimestamp(ctx, time.Unix(-1, 0)); err == nil {
		t.Error("a timestamp before 1970 was taken")
	}
}

// TestSetKeepAlive: the host sends Keep Alive according to the KATO that it has set at the controller.
func TestSetKeepAlive(t *testing.T) {
	for _, first := range []time.Duration{time.Hour, -1} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			count := 0
			l.silent = func(c *capsule.Command) bool {
				if c.Opcode == capsule.Opcode(capsule.AdminKeepAlive) {
					count++
				}
				return false
			}
			o := l.options()
			o.KeepAliveTmo = first
			c, err := l.host.Connect(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if err := c.Features().SetKeepAliveTimeout(context.Background(), 2*time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10*time.Second + 500*time.Millisecond)
			l.shard.Call(func() {
				if count != 10 {
					t.Errorf("%d keep alives in 10 s, KATO is 2 s", count)
				}
			})
			for _, d := range []time.Duration{0, -1, time.Microsecond, 1 << 62} {
				if err := c.Features().SetKeepAliveTimeout(context.Background(), d); err == nil {
					t.Errorf("KATO %v was taken", d)
				}
			}
			l.shard.Call(func() { l.silent = func(*capsule.Command) bool { return true } })
			start := time.Now()
			<-c.Done()
			if d := time.Since(start); d > 5*time.Second || !errors.Is(c.Err(), ErrKeepAlive) && !errors.Is(c.Err(), fabric.ErrTimeout) {
				t.Errorf("given up after %v for %v", d, c.Err())
			}
		})
	}
}

// TestRetryDelays: if a controller has Command Retry Delay Times, the host enables ACRE, without which the controller
// does not use them (NVMe base 2.0, 5.27.1.18). A controller that refuses this is used all the same; one without them
// is not asked.
func TestRetryDelays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		delay  uint16
		refuse capsule.Status
		want   int
	}{
		{"has some", 10, 0, 1},
		{"refuses", 10, capsule.StatusInvalidField | capsule.StatusDNR, 0},
		{"has none", 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l, reported := newLiar(t), 0
				l.identify = func(id *capsule.IdentifyController) { id.CRDT1 = tt.delay }
				isBehavior := func(c *capsule.Command) bool {
					return capsule.AdminOpcode(c.Opcode) == capsule.AdminSetFeatures && c.SetFeatures().FID == capsule.FeatureHostBehavior
				}
				l.refuse = func(c *capsule.Command) capsule.Status {
					if isBehavior(c) {
						return tt.refuse
					}
					return 0
				}
				l.sent = func(c *capsule.Command, data []byte) {
					if !isBehavior(c) {
						return
					}
					reported++
					if h, err := capsule.DecodeHostBehavior(data); err != nil || h != (capsule.HostBehavior{ACRE: true}) {
						t.Errorf("%+v, %v", h, err)
					}
				}
				if _, err := l.host.Connect(context.Background(), l.options()); err != nil {
					t.Error(err)
				}
				if reported != tt.want {
					t.Errorf("reported %d times", reported)
				}
			})
		})
	}
}
