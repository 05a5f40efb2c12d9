package target

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestGatewayLease: each command for a group looks at the time until which it is served.
func TestGatewayLease(t *testing.T) {
	f, g := withGateway(t)
	f.must(f.export(newFakeStore(1 << 20)).SetGroup(2))
	f.must(g.Serve(1, 1))
	f.must(g.Serve(2, 1))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	for _, c := range []struct {
		until time.Duration
		want  capsule.Status
	}{{time.Hour, capsule.StatusSuccess}, {-time.Millisecond, elsewhere}, {time.Hour, capsule.StatusSuccess}} {
		g.Extend(time.Now().Add(c.until), []capsule.ANAGroup{1})
		a.wantIO(c.want, 1)
		a.wantIO(capsule.StatusSuccess, 2)
	}
	g.Extend(time.Now().Add(-time.Hour), nil)
	a.wantIO(capsule.StatusSuccess, 1)
}
