package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func rejection(s capsule.RejectStatus) error {
	b := make([]byte, capsule.RejectDataSize)
	capsule.RejectData{STS: s}.Encode(b)
	return &rdmatransport.RejectError{Reason: rdmatransport.RejectConsumer, PrivateData: b}
}

// TestConnectErrors: each error says which side refused, why, and what to do.
func TestConnectErrors(t *testing.T) {
	type device = rdmatransport.RejectReason
	onlyReason := func(r device) error { return &rdmatransport.RejectError{Reason: r} }
	connect := func(s capsule.Status, result uint64) error {
		return &StatusError{connectName, s | capsule.StatusDNR, result}
	}
	invalid := func(in capsule.InvalidIn, at uint16) error {
		return connect(capsule.StatusConnectInvalidParam, capsule.InvalidParameter{In: in, Offset: at}.Result())
	}
	cases := []struct {
		err  error
		by   Side
		want string
	}{
		{rejection(capsule.RejectInvalidLength), SideTarget, "is it an NVMe target?"},
		{rejection(capsule.RejectInvalidRECFMT), SideTarget, "another version"},
		{rejection(capsule.RejectInvalidQID), SideTarget, "--nr-io-queues"},
		{rejection(capsule.RejectInvalidHSQSIZE), SideTarget, "--queue-size"},
		{rejection(capsule.RejectInvalidHRQSIZE), SideTarget, "--queue-size"},
		{rejection(capsule.RejectNoResources), SideTarget, "no room"},
		{rejection(capsule.RejectInvalidIRD), SideTarget, "RDMA READs"},
		{rejection(capsule.RejectInvalidORD), SideTarget, "RDMA READs"},
		{rejection(capsule.RejectInvalidCNTLID), SideTarget, "connect again"},
		{rejection(77), SideTarget, "reject status 77"},

		{onlyReason(rdmatransport.RejectNoResources), SideTarget, "no room for another queue pair"},
		{onlyReason(rdmatransport.RejectTimeout), SideTarget, "got no answer"},
		{onlyReason(rdmatransport.RejectInvalidServiceID), SideTarget, "nothing listens there"},
		{onlyReason(rdmatransport.RejectInvalidTransport), SideTarget, "type of connection"},
		{onlyReason(rdmatransport.RejectStale), SideTarget, "try again in a few seconds"},
		{onlyReason(rdmatransport.RejectInvalidGID), SideTarget, "does not have that address"},
		{onlyReason(rdmatransport.RejectInvalidMTU), SideTarget, "MTU"},
		{onlyReason(rdmatransport.RejectConsumer), SideTarget, "not an NVMe target"},
		{onlyReason(99), SideTarget, "reason 99"},

		{connect(capsule.StatusConnectInvalidHost, 0), SideTarget, "add its name to the subsystem's hosts"},
		{connect(capsule.StatusConnectControllerBusy, 0), SideTarget, "try again"},
		{connect(capsule.StatusConnectRestartDiscovery, 0), SideTarget, "discover again"},
		{connect(capsule.StatusConnectIncompatibleFormat, 0), SideTarget, "another version"},
		{invalid(capsule.InvalidInData, capsule.ConnectOffsetSubNQN), SideTarget, "no such subsystem here"},
		{invalid(capsule.InvalidInData, capsule.ConnectOffsetCNTLID), SideTarget, "the controller identifier"},
		{invalid(capsule.InvalidInCommand, capsule.ConnectOffsetSQSIZE), SideTarget, "SQSIZE"},
		{invalid(capsule.InvalidInCommand, 63), SideTarget, "byte 63 of its command"},
		{&StatusError{"Identify", capsule.StatusInternalError, 0}, SideTarget, "Identify: "},

		{refuse(errors.New("controller wears no hat")), SideHost, "no hat"},
		{ErrNoSecret, SideHost, "authentication"},
		{ErrNoProof, SideHost, ""},
		{rdmatransport.ErrUnreachable, SideNone, "UDP port 4791"},
		{context.DeadlineExceeded, SideNone, "see its log; " + largePackets},
		{fmt.Errorf("queue 0: %w", fabric.ErrTimeout), SideNone, "see its log; " + largePackets},
		{rdmatransport.ErrDisconnected, SideNone, "see its log; " + largePackets},
	}
	for _, c := range cases {
		e := &ConnectError{netip.MustParseAddrPort("192.0.2.2:4420"), "connecting queue 0", fmt.Errorf("wrapped: %w", c.err)}
		text := e.Error()
		if e.RefusedBy() != c.by || !strings.Contains(text, c.want) || !strings.HasPrefix(text, "192.0.2.2:4420: connecting queue 0: ") {
			t.Errorf("%v by %v, want %v and %q", text, e.RefusedBy(), c.by, c.want)
		}
		if strings.Contains(text, c.by.String()) != (c.by != SideNone) {
			t.Errorf("%v does not say that %v", text, c.by)
		}
	}
}

// TestHostRefuses: whatever this host refuses a target for, the error says that this host refused.
func TestHostRefuses(t *testing.T) {
	for name, lie := range map[string]func(*liar){
		"CNTLID":     func(l *liar) { l.cntlid = 0xfff0 },
		"pages":      func(l *liar) { l.cap.MPSMIN = 4 },
		"SGLs":       func(l *liar) { l.identify = func(i *capsule.IdentifyController) { i.SGLS = 1 } },
		"keep alive": func(l *liar) { l.identify = func(i *capsule.IdentifyController) { i.KAS = 0 } },
	} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			lie(l)
			_, err := l.host.Connect(context.Background(), l.options())
			var e *ConnectError
			if !errors.As(err, &e) || e.RefusedBy() != SideHost || !strings.Contains(err.Error(), "this host refuses the target: ") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
