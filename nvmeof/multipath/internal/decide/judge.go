package decide

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Verdict says what the status of a request on one path means.
type Verdict struct {
	Retry bool          // retry it; otherwise the status is final
	Few   bool          // retry at most MaxRetries times
	Delay time.Duration // before the retry
	// About the path, for this namespace: ANA means that the ANA state is not what the host thinks, Avoid that no
	// request should be sent for a while.
	ANA, Avoid bool
	// Look means that the identifier may belong to another namespace now.
	Look bool
}

// MaxRetries is how often a request is retried for reasons that are not due to the path, as in Linux.
const MaxRetries = 5

// pause is how long a host waits if the controller requests no time.
const pause = 100 * time.Millisecond

// RetryDelays are CRDT1 to CRDT3 of the Identify data.
type RetryDelays [3]uint16

// delay returns the delay that a status requests (NVMe base 2.0, 3.3.3.2.1, CRD).
func (d *RetryDelays) delay(s capsule.Status) time.Duration {
	if crd := s.CRD(); crd > 0 {
		return time.Duration(d[crd-1]) * 100 * time.Millisecond
	}
	return pause
}

// Judge evaluates the status with which a controller completed a request.
func Judge(s capsule.Status, crdt *RetryDelays) Verdict {
	if s.OK() || s.DNR() {
		return Verdict{}
	}
	switch s.Code() {
	case capsule.StatusANAInaccessible, capsule.StatusANAPersistentLoss, capsule.StatusANATransition:
		return Verdict{Retry: true, ANA: true}
	case capsule.StatusNamespaceNotReady:
		return Verdict{Retry: true, Delay: crdt.delay(s), Avoid: true, Look: true}
	case capsule.StatusSQDeleted, capsule.StatusKeepAliveExpired, capsule.StatusTransientTransport:
		return Verdict{Retry: true, Avoid: true}
	case capsule.StatusInternalError, capsule.StatusAbortRequested, capsule.StatusCommandInterrupted,
		capsule.StatusAdminMediaNotReady, capsule.StatusDataTransferError, capsule.StatusPowerLoss, capsule.StatusFormatInProgress:
		return Verdict{Retry: true, Few: true, Delay: crdt.delay(s)}
	}
	if s.SCT() == sctPath {
		// Our target returns Internal Path Error while another namespace has the identifier and the host has not
		// identified it yet.
		return Verdict{Retry: true, Avoid: true, Look: s.Code() == capsule.StatusInternalPathError}
	}
	return Verdict{}
}

// sctPath is the status code type of path related statuses.
const sctPath = 3

// AvoidFor is how long a path that failed a request, and is still connected, is not used.
const AvoidFor = pause

// settleTime is for targets such as Linux's nvmet that report at once that a shutdown is complete, while commands of
// disconnected queues are still in their storage.
const settleTime = time.Second

// Settle returns how long after a completed shutdown of a controller its commands may still take effect. According to
// NVMe base 2.0, 3.6.2 none may, but a host should not rely on that to the millisecond. cqt is CQT, the time in ms that
// the target needs to end commands.
func Settle(cqt uint16) time.Duration { return max(settleTime, time.Duration(cqt)*time.Millisecond) }

// Fence returns how long after the loss of a controller its commands may still take effect (NVMe base 2.1, 9.6, by
// TP4129). The target notices the loss within two keep alive periods, or three if traffic restarts its timer, and then
// ends the commands within cqt (CQT) milliseconds. A period is kato, rounded up to a multiple of kas (KAS, in units of
// 100 ms), as the controller does. If kato is 0 there is no bound, and Fence returns 0.
func Fence(kato time.Duration, kas uint16, ctratt uint32, cqt uint16) time.Duration {
	if kato <= 0 {
		return 0
	}
	if unit := time.Duration(kas) * 100 * time.Millisecond; unit > 0 {
		kato = (kato + unit - 1) / unit * unit
	}
	n := time.Duration(2)
	if ctratt&capsule.CTRATTTBKAS != 0 {
		n = 3
	}
	return n*kato + time.Duration(cqt)*time.Millisecond
}
