package decide

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestJudge(t *testing.T) {
	const crd2 capsule.Status = 2 << 11
	crdt := &RetryDelays{1, 20, 0}
	tests := []struct {
		status capsule.Status
		want   Verdict
	}{
		{capsule.StatusSuccess, Verdict{}},
		{capsule.StatusANAInaccessible, Verdict{Retry: true, ANA: true}},
		{capsule.StatusANAPersistentLoss, Verdict{Retry: true, ANA: true}},
		{capsule.StatusANATransition, Verdict{Retry: true, ANA: true}},
		{capsule.StatusANAInaccessible | capsule.StatusDNR, Verdict{}},
		{capsule.StatusInternalPathError, Verdict{Retry: true, Avoid: true, Look: true}},
		{capsule.StatusControllerPathError, Verdict{Retry: true, Avoid: true}},
		{capsule.StatusHostPathError, Verdict{Retry: true, Avoid: true}},
		{capsule.StatusAbortedByHost, Verdict{Retry: true, Avoid: true}},
		{capsule.StatusHostPathError | capsule.StatusDNR, Verdict{}},
		{capsule.StatusNamespaceNotReady, Verdict{Retry: true, Delay: pause, Avoid: true, Look: true}},
		{capsule.StatusNamespaceNotReady | crd2, Verdict{Retry: true, Delay: 2 * time.Second, Avoid: true, Look: true}},
		{capsule.StatusNamespaceNotReady | 3<<11, Verdict{Retry: true, Avoid: true, Look: true}}, // CRDT3 is 0
		{capsule.StatusNamespaceNotReady | capsule.StatusDNR, Verdict{}},
		{capsule.StatusCommandInterrupted | 1<<11, Verdict{Retry: true, Few: true, Delay: 100 * time.Millisecond}},
		{capsule.StatusInternalError, Verdict{Retry: true, Few: true, Delay: pause}},
		{capsule.StatusDataTransferError, Verdict{Retry: true, Few: true, Delay: pause}},
		{capsule.StatusDataTransferError | capsule.StatusDNR, Verdict{}},
		{capsule.StatusPowerLoss | crd2, Verdict{Retry: true, Few: true, Delay: 2 * time.Second}},
		{capsule.StatusFormatInProgress, Verdict{Retry: true, Few: true, Delay: pause}},
		{capsule.StatusSQDeleted, Verdict{Retry: true, Avoid: true}},
		{capsule.StatusLBAOutOfRange, Verdict{}},
		{capsule.StatusReservationConflict, Verdict{}},
		{capsule.StatusUnrecoveredReadError, Verdict{}},
		{capsule.StatusWriteFault, Verdict{}},
	}
	for _, tt := range tests {
		if got := Judge(tt.status, crdt); got != tt.want {
			t.Errorf("%v with CRD %d: %+v, want %+v", tt.status, tt.status.CRD(), got, tt.want)
		}
	}
}

// TestSettle: a target may request more than the minimum.
func TestSettle(t *testing.T) {
	for cqt, want := range map[uint16]time.Duration{0: time.Second, 500: time.Second, 3000: 3 * time.Second} {
		if got := Settle(cqt); got != want {
			t.Errorf("CQT of %d ms: %v, want %v", cqt, got, want)
		}
	}
}

func TestFence(t *testing.T) {
	for _, tt := range []struct {
		kato   time.Duration
		kas    uint16
		ctratt uint32
		cqt    uint16
		want   time.Duration
	}{
		{5 * time.Second, 0, 0, 0, 10 * time.Second},
		{5 * time.Second, 10, capsule.CTRATTTBKAS, 0, 15 * time.Second},
		{5 * time.Second, 10, capsule.CTRATTTBKAS, 500, 15500 * time.Millisecond},
		{5 * time.Second, 100, 0, 0, 20 * time.Second}, // as with SPDK's target
		{300 * time.Millisecond, 10, capsule.CTRATTTBKAS, 0, 3 * time.Second},
		{10 * time.Second, 100, 0, 0, 20 * time.Second},
		{10001 * time.Millisecond, 100, 0, 0, 40 * time.Second},
		{0, 10, capsule.CTRATTTBKAS, 500, 0},
	} {
		if got := Fence(tt.kato, tt.kas, tt.ctratt, tt.cqt); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
