package target

import (
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestFlushOfAll: a flush of all namespaces covers those served here, whatever others serve, unless one of those
// was lost without a flush.
func TestFlushOfAll(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	info := newFakeStore(1 << 20).Info()
	f.must(f.sub.AwaitNamespace(NamespaceConfig{NSID: 5, UUID: uuid.New(), Group: 3, Name: "test", Known: &info}))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	all := func() *hostCommand { return ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil) }
	a.io.wantOK(all()) // 1 is here, 5 elsewhere
	a.io.wantStatus(elsewhere, ioCommand(capsule.IOFlush, 5, nil, nil))
	f.must(g.Serve(3, 1))
	a.io.wantStatus(elsewhere, all()) // it belongs here, but is not served yet
	f.must(g.Stop(3))
	a.io.wantStatus(elsewhere, all())
	f.must(g.Serve(3, 2))
	f.must(g.Drain(t.Context(), 3))
	a.io.wantOK(all())
	f.must(g.Drain(t.Context(), 1))
	a.io.wantOK(all())
	g.Fence("test")
	a.io.wantOK(all()) // it had nothing left to flush
}
