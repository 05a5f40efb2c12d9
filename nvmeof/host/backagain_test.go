package host

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestBackAgain: a namespace that is absent when it is identified, and present when the host asks whether it is ready,
// is found. One that has no size and reports ready each time has been removed.
func TestBackAgain(t *testing.T) {
	var away atomic.Int32 // how many more times it has no size
	l := newLiar(t)
	l.ns = func(ns *capsule.IdentifyNamespace) {
		if away.Add(-1) >= 0 {
			ns.NSZE = 0
		}
	}
	l.answer = func(c *fabric.Command, _ *uint64, data []byte) {
		if c.SQE.Opcode == capsule.Opcode(capsule.AdminIdentify) && c.SQE.Identify().CNS == capsule.CNSNamespaceIndependent {
			id := capsule.IdentifyNamespaceIndependent{NMIC: capsule.NMICShared, NSTAT: capsule.NSTATReady}
			id.Encode(data)
		}
	}
	c, err := l.host.Connect(t.Context(), l.options())
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.Namespace(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	away.Store(1)
	if _, err := n.Refresh(); err != nil {
		t.Errorf("it is back: %v", err)
	}
	if _, err := c.Namespace(t.Context(), 1); err != nil {
		t.Error(err)
	}
	away.Store(1 << 20)
	if _, err := n.Refresh(); !errors.Is(err, ErrRemoved) {
		t.Errorf("without a size: %v", err)
	}
	if err := c.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
}
