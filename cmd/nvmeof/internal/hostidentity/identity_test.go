package hostidentity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestIdentityIsOne checks that programs that start at the same time agree on the host's identity.
func TestIdentityIsOne(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		got := make([]nvmeof.HostIdentity, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _ = keptIdentity(dir) })
		}
		wg.Wait()
		for _, h := range got {
			if h != got[0] {
				t.Fatalf("%v and %v", got[0], h)
			}
		}
		if h, ok, _ := ReadIdentity(dir); !ok || h != got[0] {
			t.Fatalf("kept %v, used %v", h, got[0])
		}
	}
}

// TestIdentityEmptied checks that an NQN file that a power failure left empty is restored from the identifier. Without
// an identifier a new identity is made, once and not for each command.
func TestIdentityEmptied(t *testing.T) {
	dir := t.TempDir()
	want, err := keptIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "hostnqn")
	for _, mishap := range []func() error{
		func() error { return os.Truncate(name, 0) },
		func() error { return os.Remove(name) },
		func() error { return os.Truncate(filepath.Join(dir, "hostid"), 0) },
	} {
		if err := mishap(); err != nil {
			t.Fatal(err)
		}
		if h, err := keptIdentity(dir); err != nil || h != want {
			t.Errorf("%v, %v, want %v", h, err, want)
		}
	}
	for _, file := range []string{"hostid", "hostnqn"} {
		if err := os.Truncate(filepath.Join(dir, file), 0); err != nil {
			t.Fatal(err)
		}
	}
	other, err := keptIdentity(dir)
	if err != nil || other == want {
		t.Errorf("%v, %v", other, err)
	}
	if again, err := keptIdentity(dir); err != nil || again != other {
		t.Errorf("%v, %v, want %v", again, err, other)
	}
}

// TestIdentifierUnreadable checks that an identifier that cannot be read is an error, rather than replaced by one
// derived from the NQN: targets identify reservations by it.
func TestIdentifierUnreadable(t *testing.T) {
	dir := t.TempDir()
	const nqn, id = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "hostnqn"), []byte(nqn+"\n"), 0o600), os.Mkdir(filepath.Join(dir, "hostid"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if h, ok, err := ReadIdentity(dir); err == nil || !strings.Contains(err.Error(), "hostid") {
		t.Errorf("%v, %v, %v", h, ok, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "hostid")), os.WriteFile(filepath.Join(dir, "hostid"), []byte(id+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if h, ok, err := ReadIdentity(dir); err != nil || !ok || uuid.UUID(h.ID).String() != id {
		t.Errorf("%v, %v, %v", h, ok, err)
	}
}

// TestIdentityUnreadable checks that an invalid NQN file is an error, rather than replaced by a new NQN for each
// command.
func TestIdentityUnreadable(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "hostnqn")
	if err := os.WriteFile(name, []byte("nqn.2014-08.org.nvmexpress:uuid:not\x01one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := keptIdentity(dir); err == nil || !strings.Contains(err.Error(), "hostnqn and hostid in "+dir) {
		t.Errorf("%v, %v", h, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keptIdentity(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
}
