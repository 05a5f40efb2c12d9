package baddisk

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

func durably(ctx context.Context, n *host.Namespace) error {
	_, err := n.WriteDurable(ctx, make([]byte, 8192), 4096)
	return err
}

// warning returns the critical warning of namespace 1 that the host reads.
func (k *client) warning() uint8 {
	k.r.t.Helper()
	l, err := k.c.Logs().SMART(k.r.t.Context(), 1)
	k.r.must(err)
	return l.CriticalWarning
}

// wantEvent waits for an event, ignoring others before it, and reads the log page, so that the controller reports the
// next event of its type.
func (k *client) wantEvent(want capsule.AsyncEvent) {
	k.r.t.Helper()
	k.r.await("the event", func() bool {
		select {
		case e := <-k.events:
			return e == want
		default:
			return false
		}
	})
	_, err := k.c.Logs().Errors(k.r.t.Context(), 1)
	k.r.must(err)
}

const (
	failedStore = "its store has failed and refuses writes"
	failedBits  = capsule.WarningReliability | capsule.WarningReadOnly
)

var failedEvent = capsule.AsyncEvent{Type: capsule.EventTypeError, Info: capsule.ErrorPersistentInternal, LID: capsule.LogError}

// TestFaults: what a host sees of each fault, and whether the store takes writes afterwards. It does not if an
// acknowledged write may be lost. Then it reports that to hosts and to the administrator until the fault is cleared.
// Other namespaces are not affected.
func TestFaults(t *testing.T) {
	const (
		media = capsule.StatusUnrecoveredReadError
		fault = capsule.StatusWriteFault
		full  = capsule.StatusCapacityExceeded | capsule.StatusDNR
		none  = capsule.StatusSuccess
	)
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		r := newRig(t, disk)
		k := r.connect()
		for _, c := range []struct {
			name  string
			fault faultyfs.Fault
			do    func(context.Context, *host.Namespace) error
			want  capsule.Status
			fails bool // the store is latched
			gone  bool // and cannot be cleared
		}{
			{"EIO of a read", faultyfs.Fault{Ops: faultyfs.OpRead, Err: syscall.EIO}, read, media, false, false},
			{"EIO of a write", faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.EIO}, write, fault, false, false},
			{"EIO of a flush", faultyfs.Fault{Ops: faultyfs.OpSync, Err: syscall.EIO, Count: 1}, flush, fault, true, false},
			{"ENOSPC of a flush", faultyfs.Fault{Ops: faultyfs.OpSync, Err: syscall.ENOSPC, Count: 1}, flush, fault, true, false},
			{"EIO of a durable write", faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.EIO, Count: 1}, durably, fault, true, false},
			{"EIO of a durable write's sync", faultyfs.Fault{Ops: faultyfs.OpSync, Err: syscall.EIO, Count: 1}, durably, fault, true, false},
			{"ENOSPC of a write", faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.ENOSPC}, write, full, false, false},
			{"EDQUOT of a write", faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.EDQUOT}, write, full, false, false},
			{"EROFS of a write", faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.EROFS}, write, capsule.StatusNamespaceWriteProtected | capsule.StatusDNR, false, false},
			{"ESTALE of a read", faultyfs.Fault{Ops: faultyfs.OpRead, Err: syscall.ESTALE}, read, media, false, false},
			{"a short write", faultyfs.Fault{Ops: faultyfs.OpWrite, Short: true}, write, none, false, false},
			{"other data", faultyfs.Fault{Ops: faultyfs.OpRead, Lie: true}, read, none, false, false},
			{"ENODEV of a read", faultyfs.Fault{Ops: faultyfs.OpRead, Err: syscall.ENODEV}, read, media, true, true},
		} {
			t.Log(c.name)
			c.fault.Name = "disk"
			k.well(1)
			disk.Inject(c.fault)
			k.want(1, c.do, c.want)
			k.well(2)
			disk.Release()
			if !c.fails {
				if why := r.Status().Troubles; len(why) > 0 {
					t.Errorf("%s: %+v", c.name, why)
				}
				k.well(1)
				continue
			}
			for range 2 { // nothing is acknowledged, however often the host tries
				k.want(1, write, fault)
				k.want(1, durably, fault)
				k.want(1, flush, fault)
			}
			k.want(1, read, none)
			r.trouble(failedStore)
			k.wantEvent(failedEvent)
			if w := k.warning(); w != failedBits {
				t.Errorf("%s: critical warning %#x", c.name, w)
			}
			if n := r.logs.FilterMessage("namespace failed").Len(); n != 1 {
				t.Errorf("%s: %d lines in the log", c.name, n)
			}
			r.logs.TakeAll()
			if err := r.ClearFault("a", 1); (err != nil) != c.gone {
				t.Errorf("%s: clearing it: %v", c.name, err)
			}
			if !c.gone {
				r.trouble("")
				if w := k.warning(); w != 0 {
					t.Errorf("%s: critical warning %#x when it is cleared", c.name, w)
				}
			}
		}
	})
}

// TestStartOnFullDisk: a target that starts while its counters cannot be saved serves all the same, with the write
// protection that hosts left, and saves them when there is space. A setting that a host makes meanwhile and that has to
// persist fails.
func TestStartOnFullDisk(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		protection := func(p capsule.WriteProtection) func(context.Context, *host.Namespace) error {
			return func(ctx context.Context, n *host.Namespace) error { return n.SetWriteProtection(ctx, p) }
		}
		state := []string{"  - nqn: a\n", "  - nqn: a\n    state: BAD/state\n"}
		const protected = capsule.StatusNamespaceWriteProtected | capsule.StatusDNR
		r := newRig(t, disk, state...)
		k := r.connect()
		k.well(1)
		k.want(1, protection(capsule.WriteProtected), capsule.StatusSuccess)
		r.must(r.Close())

		disk.Inject(faultyfs.Fault{Ops: faultyfs.OpWrite, Err: syscall.ENOSPC}) // all names, because the name of the saved file may vary
		r = begin(t, disk, control.Options{Wait: true}, state...)
		if w := r.Status().Waiting; len(w) > 0 {
			t.Fatalf("waiting are %+v", w)
		}
		if n := r.logs.FilterMessage("counters not saved").Len(); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		k = r.connect()
		k.well(2)
		k.want(1, read, capsule.StatusSuccess)
		k.want(1, write, protected)
		k.want(2, protection(capsule.WriteProtected), capsule.StatusInternalError)
		disk.Release()
		k.want(2, protection(capsule.WriteProtected), capsule.StatusSuccess)
		k.want(2, write, protected)
		r.must(r.Close())
		if text, err := os.ReadFile(filepath.Join(disk.Dir, "state")); err != nil || !strings.Contains(string(text), `"power-cycles":2,`) {
			t.Errorf("%v, saved is %s", err, text)
		}
	})
}

// TestVanishes: an unmounted file system causes errors that hosts retry, and nothing else. When it is mounted again the
// namespace works once it has been opened again.
func TestVanishes(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		r := newRig(t, disk)
		k := r.connect()
		want := make([]byte, 8192)
		copy(want, "durable")
		ctx := t.Context()
		_, err := k.spaces[1].WriteDurable(ctx, want, 4096)
		r.must(err)
		disk.Unmount()
		k.want(1, read, capsule.StatusUnrecoveredReadError)
		k.want(1, write, capsule.StatusWriteFault)
		k.want(1, flush, capsule.StatusWriteFault)
		k.want(1, write, capsule.StatusWriteFault)
		k.well(2)
		disk.Mount()
		k.want(1, flush, capsule.StatusWriteFault)
		without := r.doc.Clone()
		without.Subsystems[0].Namespaces = without.Subsystems[0].Namespaces[1:]
		if _, err := r.Apply(without, control.Options{Force: true}); err != nil {
			t.Log("to close what is gone:", err)
		}
		_, err = r.Apply(r.doc, control.Options{})
		r.must(err)
		again := r.connect()
		got := make([]byte, len(want))
		_, err = again.spaces[1].ReadAtContext(ctx, got, 4096)
		r.must(err)
		if string(got) != string(want) {
			t.Error("what was durable is lost")
		}
		again.well(1)
	})
}

// TestPowerFailsUnderLoad: data that a host was told are durable survive a power failure. All other data may be kept or
// lost, sector by sector. That includes the sizes and names of the files.
func TestPowerFailsUnderLoad(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		for seed := range uint64(4) {
			r := newRig(t, disk)
			k := r.connect()
			n, ctx := k.spaces[1], t.Context()
			block := make([]byte, 4096)
			durable := [16]byte{}
			for i := range byte(48) {
				at := int(i*7) % len(durable)
				fill(block, i+1)
				if i%3 == 0 {
					_, err := n.WriteDurable(ctx, block, int64(at)*4096)
					r.must(err)
					durable[at] = i + 1
					continue
				}
				_, err := n.WriteAtContext(ctx, block, int64(at)*4096)
				r.must(err)
				if i%8 == 7 {
					r.must(n.FlushContext(ctx))
					for j := range i + 1 {
						durable[int(j*7)%len(durable)] = j + 1
					}
				}
			}
			disk.Crash(seed)
			text, err := os.ReadFile(r.file())
			r.must(err)
			for at, least := range durable {
				for s := range 8 {
					if got := text[at*4096+s*512]; got < least {
						t.Errorf("seed %d: sector %d of block %d has write %d, and %d was durable", seed, s, at, got, least)
					}
				}
			}
			if err := os.Remove(r.file()); err != nil {
				t.Fatal(err)
			}
			_ = r.Close() // its files are gone
		}
	})
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}
