package target

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// keptProtection returns the protection with which a target would start from the record in a file.
func keptProtection(t *testing.T, path string) capsule.WriteProtection {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := life.Decode(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return r.Begin(time.Now(), "", "", 1).Namespaces[1].Protection
}

// TestProtectionPowerFails: after a power failure at any point of a change of the write protection, the state is
// the old or the new one, and the new one if the command has completed. "Write Protect Until Power Cycle" is no
// protection then (NVMe base 2.0, 8.12).
func TestProtectionPowerFails(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		path := filepath.Join(disk.Dir, "state")
		f, s := living(t, StateFile(path))
		a := f.tenant("a", s, 0)
		a.io.wantOK(writeOf(1))
		was := capsule.WriteProtectNone
		for _, p := range []capsule.WriteProtection{capsule.WriteProtected, capsule.WriteProtectNone, capsule.WriteProtected, capsule.WriteProtectedUntilOff} {
			now := p
			if p == capsule.WriteProtectedUntilOff {
				now = capsule.WriteProtectNone
			}
			disk.Begin()
			a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(p))
			disk.EveryCrash(func(m *faultyfs.Image) {
				if got := keptProtection(t, path); got != now && (m.Last || got != was) {
					t.Errorf("from %d to %d: after %d changes%s it is %d", was, p, m.After, m.Lost, got)
				}
			})
			was = now
		}
	})
}

// TestProtectionSavedInDoubt: if a change of the write protection cannot be saved, the state stays, even after a
// restart, although the file may have had the unacknowledged state for a moment.
func TestProtectionSavedInDoubt(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		path := filepath.Join(disk.Dir, "state")
		f, s := living(t, StateFile(path))
		a := f.tenant("a", s, 0)
		set := func(want capsule.Status, p capsule.WriteProtection) {
			t.Helper()
			a.setFeature(want, capsule.FeatureNamespaceWriteProtect, 1, uint32(p))
		}
		wantKept := func(p capsule.WriteProtection) {
			t.Helper()
			if got := keptProtection(t, path); got != p {
				t.Errorf("a restart finds %d, want %d", got, p)
			}
		}
		set(capsule.StatusSuccess, capsule.WriteProtected)
		disk.Inject(faultyfs.Fault{Ops: faultyfs.OpSyncDir, Err: syscall.EIO, Count: 1}) // after the file was replaced
		set(capsule.StatusInternalError, capsule.WriteProtectNone)
		a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
		wantKept(capsule.WriteProtected)

		set(capsule.StatusSuccess, capsule.WriteProtectNone)
		disk.Inject(faultyfs.Fault{Ops: faultyfs.OpSyncDir, Err: syscall.EIO, Count: 2})
		set(capsule.StatusInternalError, capsule.WriteProtected)
		a.io.wantOK(writeOf(1))
		if err := s.save(); err != nil { // as is done each minute
			t.Error(err)
		}
		wantKept(capsule.WriteProtectNone)
	})
}

// TestProtectionReturns: protection until the next power cycle stays when a namespace is removed, or away for a
// while, and added again during the same run of the target: there was no power cycle.
func TestProtectionReturns(t *testing.T) {
	for _, state := range []StateStore{nil, new(savedState)} {
		f, s := living(t, state)
		a := f.tenant("a", s, 0)
		for i, end := range []func(capsule.NSID) error{s.RemoveNamespace, s.SuspendNamespace} {
			id := capsule.NSID(i + 1)
			a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, id, uint32(capsule.WriteProtectedUntilOff))
			f.must(end(id))
			_, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: id, Name: []string{"one", "two"}[i]})
			f.must(err)
			a.admin.wantProtection(id, capsule.WriteProtectedUntilOff)
			a.setFeature(capsule.StatusFeatureNotChangeable|dnr, capsule.FeatureNamespaceWriteProtect, id, uint32(capsule.WriteProtectNone))
		}
		f.must(f.target.Close())
		f, s = living(t, state) // a power cycle
		f.tenant("a", s, 0).admin.wantProtection(1, capsule.WriteProtectNone)
	}
}

// TestProtectionReturnsEarly: it stays, and so do the counters, even if earlier commands still hang in the store
// when the namespace returns.
func TestProtectionReturnsEarly(t *testing.T) {
	for _, back := range []bool{false, true} {
		f, s := living(t, nil)
		cfg := func() NamespaceConfig { return NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 1, Name: "one"} }
		hangs := cfg()
		store := hangs.Store.(*fakeStore)
		f.must(s.RemoveNamespace(1))
		_, err := s.AddNamespace(hangs)
		f.must(err)
		a := f.tenant("a", s, 0)
		a.io.wantOK(writeOf(1))
		a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
		store.set(true, nil)
		a.io.start(readOf(1))
		f.within(a.io, "the store has it", func() bool { return store.inFlight() == 1 })
		ended := make(chan error)
		go func() { ended <- s.end(1, back, nil) }()
		f.within(a.io, "it is gone", func() bool { return s.table().Get(1) == nil })
		if left := s.table().At(1); back && left.Protection() != capsule.WriteProtected {
			t.Error("it is away, and not protected")
		}
		_, err = s.AddNamespace(cfg())
		f.must(err)
		a.admin.wantProtection(1, capsule.WriteProtected)
		a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtectNone))
		store.set(false, nil)
		f.must(<-ended)
		f.must(s.RemoveNamespace(1))
		_, err = s.AddNamespace(cfg())
		f.must(err)
		a.admin.wantProtection(1, capsule.WriteProtectNone)
		if n := a.smart(1).HostWrites; n.Lo != 1 {
			t.Errorf("%d writes", n)
		}
	}
}
