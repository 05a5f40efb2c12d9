package multipath

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestWeigh: the consequences of each result of a request on a path.
func TestWeigh(t *testing.T) {
	status := func(s capsule.Status) error { return &host.StatusError{Command: "Write", Status: s} }
	lost := errors.New("keep alive was not answered")
	const fence, hundredMs = int64(6 * time.Second), int64(100 * time.Millisecond)
	tests := []struct {
		err     error
		safety  Safety
		again   bool
		wait    int64
		blocked int64 // until then
	}{
		{status(capsule.StatusANAInaccessible), Repeatable, true, 0, untilANA},
		{status(capsule.StatusANATransition), Once, true, 0, untilANA}, // it was not executed
		{status(capsule.StatusHostPathError), Repeatable, true, 0, 1 + hundredMs},
		{status(capsule.StatusNamespaceNotReady), Repeatable, true, hundredMs, 1 + hundredMs},
		{status(capsule.StatusNamespaceNotReady | 1<<11), Repeatable, true, 5 * hundredMs, 1 + 5*hundredMs},
		{status(capsule.StatusInternalError), Repeatable, true, hundredMs, 0},
		{status(capsule.StatusLBAOutOfRange), Repeatable, false, 0, 0},
		{status(capsule.StatusANAInaccessible | capsule.StatusDNR), Repeatable, false, 0, 0},
		{host.ErrUnaligned, Repeatable, false, 0, 0},
		{fmt.Errorf("%w: Write Zeroes", host.ErrUnsupported), Repeatable, false, 0, 0},
		{backend.ErrInvalid, Repeatable, false, 0, 0},
		{host.ErrDeadline, Repeatable, false, 0, 0},
		{fmt.Errorf("%w: Read", host.ErrShortData), Harmless, true, hundredMs, 0},
		{lost, Harmless, true, 0, 1 + hundredMs},
		{lost, Repeatable, true, fence, 1 + hundredMs},
		{lost, Once, false, 0, 0},
		{&host.UnsentError{Err: lost}, Repeatable, true, 0, 1 + hundredMs},
		{&host.UnsentError{Err: lost}, Once, true, 0, 1 + hundredMs},
		{host.ErrClosed, Repeatable, true, fence, 1 + hundredMs},
	}
	for _, tt := range tests {
		p := &Path{poke: make(chan struct{}, 1)}
		p.cfg.FastIOFailTmo = 7 * time.Second
		a := &attachment{session: &session{path: p, fence: time.Duration(fence)}}
		a.session.crdt[0] = 5
		var tr trial
		err := a.weigh(&tr, tt.err, tt.safety, 1)
		if (err == nil) != tt.again || a.blocked.Load() != tt.blocked {
			t.Errorf("%v, safety %d: %v, blocked until %d", tt.err, tt.safety, err, a.blocked.Load())
		}
		var refused *host.StatusError
		deadline := int64(0)
		if errors.As(tt.err, &refused) {
			deadline = 1 + int64(7*time.Second)
		}
		if err == nil && (tr.notBefore != 1+tt.wait || tr.last != tt.err || tr.deadline != deadline) {
			t.Errorf("%v, safety %d: %+v", tt.err, tt.safety, tr)
		}
		another := refused != nil && refused.Status.Code() == capsule.StatusNamespaceNotReady && !refused.Status.DNR()
		if poked := len(p.poke) == 1; poked != (tt.blocked == untilANA || another) || a.doubt.Load() != another {
			t.Errorf("%v: the path looks: %v, at the namespace: %v", tt.err, poked, a.doubt.Load())
		}
	}
}

// TestFewTries: a request is not retried for ever if the controller itself fails.
func TestFewTries(t *testing.T) {
	a := &attachment{session: &session{path: &Path{}}}
	var tr trial
	for i := range 6 {
		err := a.weigh(&tr, &host.StatusError{Status: capsule.StatusInternalError}, Repeatable, int64(i))
		if (err == nil) != (i < 5) {
			t.Errorf("try %d: %v", i, err)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	why := errors.New("keep alive was not answered in time")
	e := &NoPathError{
		NQN: testNQN, Namespace: 1, Last: errors.New("Write: host path error"),
		Paths: []PathFailure{{Addr: (&side{}).addr, State: StateLost, Err: why}, {State: StateLive}},
	}
	for _, want := range []string{"namespace 1 of " + testNQN, "is lost: keep alive", "is live;", "the request failed: Write"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%v lacks %q", e, want)
		}
	}
	if !errors.Is(e, why) || !errors.Is(e, e.Last) {
		t.Error("the reasons cannot be found")
	}
	u := &UnknownError{Err: why}
	if !errors.Is(u, why) || !strings.Contains(u.Error(), "unknown") {
		t.Error(u)
	}
}
