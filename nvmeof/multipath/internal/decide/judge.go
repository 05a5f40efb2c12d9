package decide

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Verdict is what the end of a request on one path means.
type Verdict struct {
	Retry bool          // else it is the request's end
	Few   bool          // no more than MaxRetries times
	Delay time.Duration // before that
	// What the end says about the path, for this namespace: its ANA state is
	// another than the host thinks, or nothing goes there for a while.
	ANA, Avoid bool
	// Look: the namespace may be another one than it was.
	Look bool
}

// MaxRetries is how often a request is sent again for reasons that are not the
// path's, as Linux does.
const MaxRetries = 5

// pause is how long a host waits where a controller requests no time of its own.
const pause = 100 * time.Millisecond

// RetryDelays are CRDT1 to CRDT3 of Identify data.
type RetryDelays [3]uint16

// delay is what a status requests (NVMe base 2.0, 3.3.3.2.1, CRD).
func (d *RetryDelays) delay(s capsule.Status) time.Duration {
	if crd := s.CRD(); crd > 0 {
		return time.Duration(d[crd-1]) * 100 * time.Millisecond
	}
	return pause
}

// Judge reads the status of a request that a controller completed.
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
		// Our target says Internal Path Error while another namespace has the identifier,
		// which the host has not identified.
		return Verdict{Retry: true, Avoid: true, Look: s.Code() == capsule.StatusInternalPathError}
	}
	return Verdict{}
}

// sctPath is the status code type of path related status.
const sctPath = 3

// AvoidFor is how long nothing goes to a path that failed a request and is still
// connected.
const AvoidFor = pause

// settleTime is for targets that say at once that a shutdown is complete, as Linux's nvmet
// does, while commands of queues that are disconnected still lie in their storage.
const settleTime = time.Second

// Settle is how long after the shutdown of a controller its commands may still take
// effect: none may (NVMe base 2.0, 3.6.2), but a host had better not rely on that to the
// millisecond. cqt is CQT, the time that the target says it takes to end commands.
func Settle(cqt uint16) time.Duration { return max(settleTime, time.Duration(cqt)*time.Millisecond) }

// Fence is how long after the loss of a controller its commands may still take
// effect: until the target has noticed, two keep alive periods, or three where
// traffic restarts them, and then has ended them within CQT milliseconds (NVMe base
// 2.1, 9.6, by TP4129). A period is kato, rounded up to a multiple of kas, which is KAS,
// in units of 100 ms: so does the controller. 0 where kato is: then there is no such bound.
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
