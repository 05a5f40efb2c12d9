package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// twoHosts connects to the rig's namespace as two hosts.
func twoHosts(r *rig) (a, b *Namespace) {
	r.t.Helper()
	connect := func() *Namespace {
		id, err := nvmeof.NewHostIdentity()
		if err != nil {
			r.t.Fatal(err)
		}
		o := r.options()
		o.HostNQN, o.HostID, o.NrIOQueues = id.NQN, id.ID, 1
		return r.namespace(r.connect(o))
	}
	return connect(), connect()
}

// TestReservations tests all six types with two hosts.
func TestReservations(t *testing.T) {
	const keyA, keyB = 0xaaaa, 0xbbbb
	for kind := capsule.ReservationWriteExclusive; kind.Valid(); kind++ {
		t.Run(fmt.Sprint("type ", kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
				a, b := twoHosts(r)
				ctx, data := context.Background(), make([]byte, 512)
				must := func(what string, err, want error) {
					t.Helper()
					if !errors.Is(err, want) || want == nil && err != nil {
						t.Errorf("%s: %v, want %v", what, err, want)
					}
				}
				must("acquire unregistered", a.Reservations().Acquire(ctx, keyA, kind), ErrReserved)
				must("register", a.Reservations().Register(ctx, keyA, RegisterOptions{}), nil)
				must("acquire", a.Reservations().Acquire(ctx, keyA, kind), nil)
				must("write of another", second(b.WriteAt(data, 0)), ErrReserved)
				exclusive := kind == capsule.ReservationExclusiveAccess || kind == capsule.ReservationExclusiveAccessRegistrantsOnly || kind == capsule.ReservationExclusiveAccessAllRegistrants
				if exclusive {
					must("read of another", second(b.ReadAt(data, 0)), ErrReserved)
				} else {
					must("read of another", second(b.ReadAt(data, 0)), nil)
				}
				must("register b", b.Reservations().Register(ctx, keyB, RegisterOptions{}), nil)
				if kind.AllRegistrants() || kind.RegistrantsOnly() {
					must("write of a registrant", second(b.WriteAt(data, 0)), nil)
				} else {
					must("write of a registrant", second(b.WriteAt(data, 0)), ErrReserved)
				}
				report, err := b.Reservations().Report(ctx)
				if err != nil || report.Type != kind || len(report.Registrants) != 2 || !report.Holds(a.controller.options.HostID) ||
					report.Holds(b.controller.options.HostID) != kind.AllRegistrants() {
					t.Errorf("report %+v, %v", report, err)
				}
				victim := capsule.ReservationKey(keyA)
				if kind.AllRegistrants() {
					victim = 0
				}
				must("preempt", b.Reservations().Preempt(ctx, keyB, victim, kind, kind%2 == 0), nil)
				must("write of the one preempted", second(a.WriteAt(data, 0)), ErrReserved)
				must("replace with a wrong key", b.Reservations().Replace(ctx, 1, 2, RegisterOptions{}), ErrReserved)
				must("replace whatever it is", b.Reservations().Replace(ctx, 0, 2, RegisterOptions{IgnoreKey: true}), nil)
				must("release", b.Reservations().Release(ctx, 2, kind), nil)
				must("write", second(a.WriteAt(data, 0)), nil)
				must("acquire again", b.Reservations().Acquire(ctx, 2, kind), nil)
				must("clear", b.Reservations().Clear(ctx, 2), nil)
				must("register again", b.Reservations().Register(ctx, 3, RegisterOptions{}), nil)
				must("unregister", b.Reservations().Unregister(ctx, 3, RegisterOptions{}), nil)
				if report, err := a.Reservations().Report(ctx); err != nil || len(report.Registrants) != 0 || report.Type != capsule.ReservationNone {
					t.Errorf("report at the end %+v, %v", report, err)
				}
				if err := a.Reservations().Acquire(ctx, keyA, 7); err == nil || !strings.Contains(err.Error(), "unknown type") {
					t.Errorf("a type that there is not: %v", err)
				}
				must("through power loss", a.Reservations().Register(ctx, 1, RegisterOptions{Persist: PersistAlways}), ErrUnsupported)
			})
		})
	}
}

// TestReservationReport reads long reports, and invalid ones.
func TestReservationReport(t *testing.T) {
	cases := []struct {
		registrants, grows int
		want               string // empty: read
	}{
		{0, 0, ""}, {62, 0, ""}, {63, 0, ""}, {63, 1, ""}, {1000, 0, ""},
		{65535, 0, "65535 registrants is longer than"},
		{64, 64, "grew during each of 5 attempts"},
	}
	for _, c := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { i.ONCS = capsule.ONCSReservations }
			count := c.registrants
			l.io = func(q *liarQueue, x *fabric.Command) {
				pieces := q.piece(x)
				b := pieces[0].Buf
				clear(b)
				capsule.ReservationStatus{Generation: 9, Registrants: uint16(count)}.Encode(b)
				for i := 0; i < count && 64*i+128 <= len(b); i++ {
					capsule.ReservationRegistrant{Key: capsule.ReservationKey(i)}.Encode(b[64*i+64:])
				}
				count += c.grows
				x.RespondData(pieces, 0)
			}
			controller, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			n, err := controller.Namespace(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			report, err := n.Reservations().Report(context.Background())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%d registrants: %v, want %q", c.registrants, err, c.want)
				}
				return
			}
			if err != nil || len(report.Registrants) < c.registrants || report.Generation != 9 {
				t.Fatalf("%d registrants: %v", c.registrants, err)
			}
			for i, x := range report.Registrants {
				if x.Key != capsule.ReservationKey(i) {
					t.Fatalf("registrant %d has key %d", i, x.Key)
				}
			}
		})
	}
}

func FuzzReservations(f *testing.F) {
	b := make([]byte, 4096)
	capsule.ReservationStatus{Generation: 1, Type: 3, Registrants: 2}.Encode(b)
	capsule.ReservationRegistrant{Key: 7, Holds: 1}.Encode(b[64:])
	f.Add(b)
	f.Add(b[:63])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, whole, err := readReservations(b)
		if err != nil {
			return
		}
		if whole <= len(b) && len(r.Registrants)*capsule.ReservationRegistrantSize+capsule.ReservationStatusSize != whole {
			t.Errorf("%d registrants in %d bytes", len(r.Registrants), whole)
		}
	})
}
