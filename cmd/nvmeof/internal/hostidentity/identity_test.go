package hostidentity

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestIdentityIsOne: programs that start at the same time agree on who this host is.
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

// TestIdentityUnreadable: a name that is none is said to be, instead of another one being
// made up for each command.
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
