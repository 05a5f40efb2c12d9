package gateway

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestConnectAtStart: a host that connects to a gateway which does not have the group's configuration yet is
// not told to give up, and comes in when the gateway has it.
func TestConnectAtStart(t *testing.T) {
	t.Parallel()
	h := testHost(t, 98)
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(9, 1))))
	doc := document(t)
	doc.Subsystems[0].Hosts, doc.Subsystems[0].AllowAnyHost = nil, true
	if _, err := start(t, store.Open(time.Second), "gw1", 21).m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	b := listen(t, store.Open(time.Second), "gw2", 22)
	connect := func(nqn nvmeof.NQN) (s capsule.Status) {
		c, err := h.Connect(t.Context(), host.Options{Traddr: address(22), NQN: nqn})
		var status *host.StatusError
		switch {
		case err == nil:
			_ = c.Disconnect(t.Context()) // nothing was asked of it
		case errors.As(err, &status):
			s = status.Status
		default:
			t.Fatal(err)
		}
		return s
	}
	const missing = "nqn.2014-08.org.example:missing"
	for _, nqn := range []nvmeof.NQN{doc.Subsystems[0].NQN, missing} {
		if s := connect(nqn); s != capsule.StatusConnectControllerBusy {
			t.Errorf("%s before the configuration has come: %v", nqn, s)
		}
	}
	b.begin()
	for end := time.Now().Add(30 * time.Second); connect(doc.Subsystems[0].NQN) != capsule.StatusSuccess; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the host does not come in")
		}
	}
	for end := time.Now().Add(30 * time.Second); connect(missing) != capsule.StatusConnectInvalidParam|capsule.StatusDNR; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a subsystem that does not exist is waited for")
		}
	}
}
