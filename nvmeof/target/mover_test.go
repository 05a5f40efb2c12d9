package target

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// overMovable returns a network that a device can leave and join again.
func overMovable(seed uint64, faults softroce.Faults) (provider, *softroce.Network) {
	n := softroce.NewNetwork(seed)
	n.Faults = func(_, _ netip.Addr) softroce.Faults { return faults }
	return func(t *testing.T) (target, host rdmatransport.Device) {
		open := func(a netip.Addr) rdmatransport.Device {
			d, err := softroce.Open(softroce.Config{Addr: a, Shards: 2, Network: n})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return open(targetAddr), open(hostAddr)
	}, n
}

// move has another Target continue the associations, as another process would.
func (r *remote) move(n *softroce.Network) {
	r.t.Helper()
	if !r.tryMove(n) {
		r.t.Fatal("it cannot be moved")
	}
}

// tryMove is move that may fail.
func (r *remote) tryMove(n *softroce.Network) bool {
	r.t.Helper()
	return r.tryMoveIn(n, func() {}, 0, 0)
}

// tryMoveIn is tryMove that takes a given time, and calls meanwhile while no command can begin. By the monotonic
// clock it takes longer by setBack: the time of day was set back meanwhile.
func (r *remote) tryMoveIn(n *softroce.Network, meanwhile func(), takes, setBack time.Duration) bool {
	r.t.Helper()
	begin := time.Now()
	r.target.clock = func() time.Duration { return time.Since(begin) }
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	id := r.sub.Namespaces()[0].UUID()
	m, err := NewMover(r.target)
	must(err)
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	if m.Suspend(ctx) != nil {
		return false
	}
	meanwhile()
	moved, err := m.Export(ctx)
	if err != nil {
		return false
	}
	must(r.target.Close())
	must(r.devs[0].Close())
	b, err := moved.MarshalBinary()
	must(err)
	time.Sleep(takes)
	var next Moved
	must(next.UnmarshalBinary(b))
	r.devs[0], err = softroce.Open(softroce.Config{Addr: targetAddr, Network: n, Moved: moved.Devices[0].Moved})
	must(err)
	cfg := r.target.cfg
	cfg.Device = r.devs[0]
	r.target, err = New(cfg)
	must(err)
	r.target.clock = func() time.Duration { return time.Since(begin) + setBack }
	s, err := r.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
	must(err)
	s.AllowHost(testHostNQN)
	_, err = s.AddNamespace(NamespaceConfig{Store: r.served, UUID: id})
	must(err)
	_, err = r.target.Listen(r.addr)
	must(err)
	r.sub = s
	release, err := Adopt(r.target, &next)
	must(err)
	release()
	return true
}

// TestMove moves the associations of a host that reads and writes without pause.
func TestMove(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]softroce.Faults{"sound": {Delay: 20 * time.Microsecond}, "lossy": lossy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open, n := overMovable(1, faults)
				r := newRemote(t, open)
				admin, io := r.controller(2)
				held := admin.start(capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent)}, 0, 0)
				enable := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), CDW10: uint32(capsule.FeatureAsyncEvent), CDW11: capsule.EventNamespaceAttribute}
				admin.do(enable, 0, 0)
				ids := slices.Collect(maps.Keys(r.sub.controllers))
				end, ended := make(chan struct{}), make(chan error, len(io))
				for i, q := range io {
					go func() { ended <- q.exercise(i, end) }()
				}
				for range 5 {
					time.Sleep(3 * time.Millisecond)
					r.move(n)
				}
				time.Sleep(3 * time.Millisecond)
				close(end)
				for range io {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
				if len(r.sub.controllers) != 1 || r.sub.controllers[ids[0]] == nil {
					t.Errorf("controllers %v, want %v", r.sub.controllers, ids)
				}
				select {
				case <-held:
					t.Error("the Asynchronous Event Request has completed")
				default:
				}
				if err := r.sub.RemoveNamespace(1); err != nil {
					t.Error(err)
				}
				if req := <-held; req.Err != nil || !req.Completion.Status.OK() {
					t.Errorf("event: %v, %v", req.Completion.Status, req.Err)
				}
				r.close()
			})
		})
	}
}

// TestMoveForLong: a command that arrives while the associations move is executed, unless the move takes so long
// that its host has given up the association and sent the command on another path, to another target, where others
// have followed it. The time of day does not matter for that: setting it neither revives such a command, nor ends
// associations.
func TestMoveForLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kato          uint32
		held, setBack time.Duration
		gone          bool
	}{
		"shortly": {2000, 2 * time.Second, 0, false}, "for long": {2000, 6 * time.Second, 0, true}, "without keep alive": {0, 6 * time.Second, 0, false},
		"for long, the time set back": {2000, 0, 6 * time.Second, true}, "shortly, the time set forwards": {2000, 6 * time.Second, -5 * time.Second, false},
		"by clocks of two time namespaces": {2000, time.Second, -time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open, n := overMovable(6, softroce.Faults{Delay: 20 * time.Microsecond})
				r := newRemote(t, open)
				admin, io := r.controller(1)
				if c.kato > 0 {
					admin.do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), CDW10: uint32(capsule.FeatureKeepAliveTimer), CDW11: c.kato}, 0, 0)
				}
				copy(io[0].bytes(0, 4096), bytes.Repeat([]byte{7}, 4096))
				var late chan *fabric.Request
				if !r.tryMoveIn(n, func() {
					late = io[0].start(rwCommand(capsule.IOWrite, 0, 1), 0, 4096)
					time.Sleep(time.Millisecond)
				}, c.held, c.setBack) {
					t.Fatal("it cannot be moved")
				}
				req := <-late
				written := r.store.Memory()[0] == 7
				if ended := req.Err != nil; ended != c.gone || written == c.gone || !ended && !req.Completion.Status.OK() {
					t.Errorf("the write is answered with %v, %v, and executed: %v", req.Completion.Status, req.Err, written)
				}
				r.close()
			})
		})
	}
}

// TestMoveQueueMemory: associations are continued whatever they take of the queue memory. The other process admitted
// them, maybe in another order, with a higher limit, or as a version that counted less.
func TestMoveQueueMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(9, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		_, io := r.controller(3)
		r.target.cfg.QueueMemory = 1 << 20 // of the next one
		if !r.tryMove(n) {
			t.Fatal("it cannot be moved")
		}
		for _, q := range io {
			q.do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
		}
		if _, err := r.tryDial(9, 128); err == nil {
			t.Error("a new queue gets memory too")
		}
		r.close()
	})
}

// TestMoveTimestamp: a controller's clock continues during the move.
func TestMoveTimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(7, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		admin, _ := r.controller(1)
		const set, pause = 1 << 40, 3 * time.Second
		binary.LittleEndian.PutUint64(admin.bytes(0, 8), set)
		admin.do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), CDW10: uint32(capsule.FeatureTimestamp)}, 0, 8)
		if !r.tryMoveIn(n, func() {}, pause, 0) {
			t.Fatal("it cannot be moved")
		}
		admin.do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetFeatures), CDW10: uint32(capsule.FeatureTimestamp)}, 0, 8)
		now, err := capsule.DecodeTimestamp(admin.bytes(0, 8))
		if took := time.Duration(now.Millis-set) * time.Millisecond; err != nil || !now.Set || took < pause || took > pause+time.Second {
			t.Errorf("timestamp %+v, %v: %v after it was set", now, err, took)
		}
		r.close()
	})
}

// TestMoveANACounts: the change counts of the ANA log do not go back, since hosts distinguish versions of it by
// them (NVMe base 2.0, 5.16.1.13).
func TestMoveANACounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(8, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		admin, _ := r.controller(1)
		read := func() (log, group uint64) {
			cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetLogPage)}
			capsule.GetLogPage{LID: capsule.LogANA, Length: 4096}.Put(&cmd)
			admin.do(cmd, 0, 4096)
			page, err := capsule.ParseANALog(admin.bytes(0, 4096))
			if err != nil || len(page.Groups) != 1 {
				t.Fatalf("%+v, %v", page, err)
			}
			return page.ChangeCount, page.Groups[0].ChangeCount
		}
		for _, s := range []capsule.ANAState{capsule.ANANonOptimized, capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAOptimized} {
			if err := r.target.Listeners()[0].SetANAState(1, s); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			log, group := read()
			r.move(n)
			if l, g := read(); l < log || g < group {
				t.Errorf("counts %d and %d of the group, before %d and %d", l, g, log, group)
			}
		}
		r.close()
	})
}

// exercise writes and reads back until end is closed.
func (q *remoteQueue) exercise(i int, end <-chan struct{}) error {
	base := i * (2 << 20)
	for round := 0; ; round++ {
		select {
		case <-end:
			return nil
		default:
		}
		var flights []chan *fabric.Request
		do := func(op capsule.IOOpcode) error {
			flights = flights[:0]
			for k := range 8 {
				n := 4096 << (k % 3)
				flights = append(flights, q.start(rwCommand(op, capsule.LBA(i*512+k*16), uint32(n/4096)), base+k*65536, n))
			}
			for _, f := range flights {
				if req := <-f; req.Err != nil || !req.Completion.Status.OK() {
					return errors.Join(req.Err, errors.New(req.Completion.Status.String()))
				}
			}
			return nil
		}
		fill := func(b byte) {
			for k := range 8 {
				copy(q.bytes(base+k*65536, 16384), bytes.Repeat([]byte{b + byte(k)}, 16384))
			}
		}
		fill(byte(round))
		if err := do(capsule.IOWrite); err != nil {
			return err
		}
		fill(0xee)
		if err := do(capsule.IORead); err != nil {
			return err
		}
		for k := range 8 {
			n := 4096 << (k % 3)
			if !bytes.Equal(q.bytes(base+k*65536, n), bytes.Repeat([]byte{byte(round) + byte(k)}, n)) {
				return errors.New("read back differs")
			}
		}
	}
}

// TestMoveState checks which state of an association moves with it.
func TestMoveState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(2, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		admin, io := r.controller(1)
		set := func(f capsule.FID, nsid capsule.NSID, v uint32) {
			admin.do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), NSID: nsid, CDW10: uint32(f), CDW11: v}, 0, 0)
		}
		get := func(f capsule.FID, nsid capsule.NSID) uint64 {
			return admin.do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetFeatures), NSID: nsid, CDW10: uint32(f)}, 0, 0).Result
		}
		set(capsule.FeatureTemperatureThreshold, 0, 300)
		set(capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtectedUntilOff))
		reserve := func(op capsule.IOOpcode, f capsule.ReservationCommand, current, other capsule.ReservationKey) {
			capsule.ReservationKeys{Current: current, Other: other}.Encode(io[0].bytes(0, capsule.ReservationKeysSize))
			io[0].do(reserveCommand(op, 1, f, current, other).sqe, 0, capsule.ReservationKeysSize)
		}
		reserve(capsule.IOReservationRegister, capsule.ReservationCommand{}, 0, 7)
		reserve(capsule.IOReservationAcquire, capsule.ReservationCommand{Type: capsule.ReservationWriteExclusive}, 7, 0)
		before := r.sub.Namespaces()[0].Reservation()
		// The first half of a fused operation, whose second half arrives later.
		first := rwCommand(capsule.IOCompare, 0, 1)
		first.Flags = capsule.CommandFlags(capsule.FuseFirst)
		compare := io[0].start(first, 0, 4096)
		time.Sleep(time.Millisecond)
		r.move(n)
		if v := get(capsule.FeatureTemperatureThreshold, 0); v != 300 {
			t.Errorf("temperature threshold %d", v)
		}
		if v := get(capsule.FeatureNamespaceWriteProtect, 1); v != uint64(capsule.WriteProtectedUntilOff) {
			t.Errorf("write protection %d", v)
		}
		if after := r.sub.Namespaces()[0].Reservation(); !reflect.DeepEqual(after, before) || len(after.Registrants) != 1 {
			t.Errorf("reservation %+v, was %+v", after, before)
		}
		second := rwCommand(capsule.IOWrite, 0, 1)
		second.Flags = capsule.CommandFlags(capsule.FuseSecond)
		write := io[0].start(second, 65536, 4096)
		if a, b := <-compare, <-write; a.Err != nil || a.Completion.Status.Code() != capsule.StatusFailedFused.Code() ||
			b.Completion.Status.Code() != capsule.StatusNamespaceWriteProtected.Code() {
			t.Errorf("%v, %v; %v, %v", a.Err, a.Completion.Status, b.Err, b.Completion.Status)
		}
		r.close()
	})
}

// TestMoveRefused checks what prevents a move, and that the target continues.
func TestMoveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, _ := overMovable(3, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		_, io := r.controller(1)
		ns := r.sub.Namespaces()[0]
		if err := ns.Pause(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		done := io[0].start(rwCommand(capsule.IORead, 0, 1), 0, 4096)
		m, err := NewMover(r.target)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Suspend(t.Context()); err == nil || !strings.Contains(err.Error(), "is paused") {
			t.Errorf("paused: %v", err)
		}
		if err := ns.Resume(); err != nil {
			t.Fatal(err)
		}
		if req := <-done; req.Err != nil || !req.Completion.Status.OK() {
			t.Errorf("%v, %v", req.Completion.Status, req.Err)
		}
		if _, err := NewMover(r.target); err != nil {
			t.Error(err)
		} else if _, err := NewMover(r.target); err == nil {
			t.Error("two movers")
		}
		r.close()
	})
}

// A fullDevice has no file descriptors left.
type fullDevice struct{ rdmatransport.MovableDevice }

func (fullDevice) Prepare() error { return syscall.EMFILE }

// TestMoveWithoutDescriptors checks that a process without free descriptors for the other one refuses to move,
// before anything is given up, and that the target continues.
func TestMoveWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, _ := overMovable(6, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, func(t *testing.T) (target, host rdmatransport.Device) {
			target, host = open(t)
			return fullDevice{target.(rdmatransport.MovableDevice)}, host
		})
		_, io := r.controller(1)
		m, err := NewMover(r.target)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Export(t.Context()); !errors.Is(err, syscall.EMFILE) || m.Ended() {
			t.Errorf("Export: %v; ended: %v", err, m.Ended())
		}
		if req := <-io[0].start(rwCommand(capsule.IORead, 0, 1), 0, 4096); req.Err != nil || !req.Completion.Status.OK() {
			t.Errorf("%v, %v", req.Completion.Status, req.Err)
		}
		r.close()
	})
}

// TestMoveBesideHang checks that a store that does not answer prevents a move, that the error names it, and that
// the target continues.
func TestMoveBesideHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, _ := overMovable(4, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		store := newFakeStore(1 << 20)
		if _, err := r.sub.AddNamespace(NamespaceConfig{Store: store, Name: "slow.img"}); err != nil {
			t.Fatal(err)
		}
		_, io := r.controller(1)
		store.set(true, nil)
		slow := rwCommand(capsule.IOWrite, 0, 1)
		slow.NSID = 2
		hung := io[0].start(slow, 0, 512)
		time.Sleep(time.Millisecond)
		m, err := NewMover(r.target)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		done := io[0].start(rwCommand(capsule.IORead, 0, 1), 8192, 4096)
		if err := m.Suspend(ctx); err == nil || !strings.Contains(err.Error(), "stores that do not answer: slow.img") {
			t.Errorf("Suspend: %v", err)
		}
		if req := <-done; req.Err != nil || !req.Completion.Status.OK() {
			t.Errorf("%v, %v", req.Completion.Status, req.Err)
		}
		store.set(false, nil)
		store.step()
		if req := <-hung; req.Err != nil || !req.Completion.Status.OK() {
			t.Errorf("%v, %v", req.Completion.Status, req.Err)
		}
		r.close()
	})
}

// TestMoveBesidePauses pauses and resumes a namespace during a move: neither waits forever for the other.
func TestMoveBesidePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(5, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		r.controller(1)
		for range 20 {
			ns, ended := r.sub.Namespaces()[0], make(chan struct{})
			go func() {
				defer close(ended)
				for range 3 {
					if ns.Pause(time.Second) == nil {
						_ = ns.Resume() // the target may have ended
					}
				}
			}()
			for !r.tryMove(n) {
				time.Sleep(100 * time.Microsecond)
			}
			<-ended
		}
		r.close()
	})
}

// TestMovedBad checks that a damaged record is an error.
func TestMovedBad(t *testing.T) {
	b, err := new(Moved).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(b)
	other[len(movedMagic)]++
	for name, bad := range map[string][]byte{"empty": nil, "cut": b[:len(b)-3], "version": other, "magic": b[1:]} {
		if err := new(Moved).UnmarshalBinary(bad); err == nil {
			t.Error(name, "is no error")
		}
	}
	if err := new(Moved).UnmarshalBinary(b); err != nil {
		t.Error(err)
	}
}
