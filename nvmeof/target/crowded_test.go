package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// TestCrowded: a subsystem with more namespaces than one list holds, one of them at the highest NSID, lists them
// in parts, and reports all in its ANA log.
func TestCrowded(t *testing.T) {
	if nvmeof.MaxNamespaces != storage.MaxNamespace {
		t.Errorf("a host opens %d namespaces, of %d that there may be", nvmeof.MaxNamespaces, storage.MaxNamespace)
	}
	f := newFixture(t)
	const more = capsule.NamespaceListEntries + 1
	for n := 2; n <= more+1; n++ {
		m, err := memory.New(memory.Config{Size: 4096})
		if err != nil {
			t.Fatal(err)
		}
		var id capsule.NSID
		if n > more {
			id = storage.MaxNamespace
		}
		if _, err := f.sub.AddNamespace(NamespaceConfig{Store: m, NSID: id}); err != nil {
			t.Fatalf("namespace %d: %v", n, err)
		}
	}
	h, _ := f.connectAdmin(0)
	for _, part := range []struct{ after, last, n capsule.NSID }{
		{0, capsule.NamespaceListEntries, capsule.NamespaceListEntries},
		{capsule.NamespaceListEntries, storage.MaxNamespace, 2},
		{more, storage.MaxNamespace, 1},
		{storage.MaxNamespace, 0, 0},
	} {
		b := make([]byte, capsule.NamespaceListSize)
		cmd := adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: capsule.CNSActiveNamespaces}, b)
		cmd.sqe.NSID = part.after
		h.wantOK(cmd)
		var n, last capsule.NSID
		for ; capsule.NSIDAt(b, int(n)) != 0; n++ {
			last = capsule.NSIDAt(b, int(n))
		}
		if n != part.n || last != part.last {
			t.Errorf("after %d: %d namespaces up to %d", part.after, n, last)
		}
	}
	log, err := capsule.ParseANALog(logInto(h, capsule.LogANA, maxANALog, 0))
	if err != nil || len(log.Groups) != 1 || len(log.Groups[0].Namespaces) != more+1 {
		t.Errorf("ANA log: %d groups, %v", len(log.Groups), err)
	}
}
