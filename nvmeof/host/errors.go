package host

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Errors of requests.
var (
	// ErrClosed reports a controller that [Controller.Disconnect] or [Host.Close] has disconnected. From NewQueue it is
	// a [backend.ErrClosed] too.
	ErrClosed = association.ErrClosed

	// ErrUnaligned and ErrOutOfRange report requests that were not sent because their range is not one of whole blocks
	// of the namespace. They match [backend.ErrInvalid] and [backend.ErrOutOfRange] too, as the corresponding statuses
	// of a controller do.
	ErrUnaligned  error = &storeError{"offset or length is not a multiple of the block size", backend.ErrInvalid}
	ErrOutOfRange error = &storeError{"range is not within the namespace", backend.ErrOutOfRange}

	// ErrRemoved reports a namespace that the controller no longer has, or whose identifier belongs to another
	// namespace now. The status Invalid Namespace is an ErrRemoved too.
	ErrRemoved = errors.New("namespace was removed")

	// ErrUnseen reports a namespace for which the last Identify failed or got no response. Its identifier may belong to
	// another namespace now, so nothing is sent until [Namespace.Refresh] has identified it.
	ErrUnseen = errors.New("namespace could not be identified again, and may be a different one")

	// ErrNotReady reports a namespace that exists, but whose store is not available to the controller now. The
	// controller sends an event when that changes.
	ErrNotReady = errors.New("namespace is not ready: the target waits for its store")

	// ErrShortData reports a Read or Identify that the controller completed with success without having sent all of its
	// data, so that the buffer may contain older data. It is detected only if each command has its own key and the RDMA
	// provider counts the data, as softroce does and RNICs do not.
	ErrShortData = fabric.ErrShortData

	// ErrUnsupported reports a command that the controller does not support. It is a [backend.ErrUnsupported] too.
	ErrUnsupported error = &storeError{"controller does not support the command", backend.ErrUnsupported}
)

// An UnsentError reports a request of which nothing was sent because the controller had been lost. With any other error
// of a lost controller, it is unknown whether a request was executed.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// An UnusableError reports a namespace that exists, but that this host cannot use according to its Identify data.
type UnusableError struct {
	ID  capsule.NSID
	Err error // the reason
}

func (e *UnusableError) Error() string { return fmt.Sprintf("namespace %d: %v", e.ID, e.Err) }

func (e *UnusableError) Unwrap() error { return e.Err }

// Removed returns the error of the namespace that had the same identifier before.
func (e *UnusableError) Removed() *RemovedError {
	return &RemovedError{e.ID, fmt.Sprintf("is a different one, which this host cannot use: %v", e.Err)}
}

// A RemovedError is an [ErrRemoved] that says what has taken the namespace's place.
type RemovedError struct {
	ID  capsule.NSID
	Why string
}

func (e *RemovedError) Error() string { return fmt.Sprintf("namespace %d %s", e.ID, e.Why) }

func (e *RemovedError) Is(target error) bool { return target == ErrRemoved }

// A storeError is an error that also matches an error of package backend.
type storeError struct {
	text string
	is   error
}

func (e *storeError) Error() string        { return e.text }
func (e *storeError) Is(target error) bool { return target == e.is }

// A StatusError reports a command that the controller completed with an error.
type StatusError struct {
	Command string
	Status  capsule.Status
	Result  uint64 // DW0 and DW1 of the completion
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %v%s", e.Command, e.Status, e.hint())
}

// Is makes statuses match errors of package backend, so that a namespace can be used in place of a local store.
func (e *StatusError) Is(target error) bool {
	switch e.Status.Code() {
	case capsule.StatusLBAOutOfRange:
		return target == backend.ErrOutOfRange
	case capsule.StatusNamespaceWriteProtected:
		return target == backend.ErrReadOnly
	case capsule.StatusInvalidNamespace:
		return target == ErrRemoved
	case capsule.StatusReservationConflict:
		return target == ErrReserved
	case capsule.StatusCompareFailure:
		return target == backend.ErrMiscompare
	case capsule.StatusCapacityExceeded:
		return target == backend.ErrNoSpace
	case capsule.StatusInvalidField, capsule.StatusInvalidOpcode:
		return target == backend.ErrInvalid
	}
	return false
}

const connectName = "Connect"

// hint explains the status of a failed Connect, and says what to do.
func (e *StatusError) hint() string {
	if e.Command != connectName {
		return ""
	}
	switch e.Status.Code() {
	case capsule.StatusConnectInvalidParam:
		return ": the controller rejects " + connectField(capsule.ParseInvalidParameter(e.Result))
	case capsule.StatusConnectInvalidHost:
		return ": " + e.hostHint()
	case capsule.StatusConnectIncompatibleFormat:
		return ": the target has another version of NVMe over Fabrics"
	case capsule.StatusConnectControllerBusy:
		return ": the controller is busy; try again"
	case capsule.StatusConnectRestartDiscovery:
		return ": the subsystem has moved; discover again"
	case capsule.StatusAuthenticationRequired:
		return ": " + ErrNoSecret.Error()
	}
	return ""
}

// ObjectsToIdentifier reports whether a Connect was refused because of the host identifier, not of the host NQN.
func (e *StatusError) ObjectsToIdentifier() bool {
	p := capsule.ParseInvalidParameter(e.Result)
	return e.Command == connectName && e.Status.Code() == capsule.StatusConnectInvalidHost &&
		p.In == capsule.InvalidInData && p.Offset == capsule.ConnectOffsetHostID
}

// hostHint says what to do if the host was refused.
func (e *StatusError) hostHint() string {
	if e.ObjectsToIdentifier() {
		return "the target refuses the host identifier: another host has it, or this host is connected with a different one, " +
			"perhaps from before a crash; each host needs its own, permanent one (--hostid, /etc/nvme/hostid)"
	}
	return "the target does not allow this host; add its name to the subsystem's hosts"
}

var connectCommandFields = map[uint16]string{
	capsule.ConnectOffsetRECFMT: "the record format",
	capsule.ConnectOffsetQID:    "the queue identifier (QID); connect with fewer queues (--nr-io-queues)",
	capsule.ConnectOffsetSQSIZE: "the queue size (SQSIZE); connect with another (--queue-size)",
	capsule.ConnectOffsetCATTR:  "the connect attributes (CATTR)",
	capsule.ConnectOffsetKATO:   "the keep alive timeout (KATO); connect with another (--keep-alive-tmo)",
}

var connectDataFields = map[uint16]string{
	capsule.ConnectOffsetHostID:  "the host identifier",
	capsule.ConnectOffsetCNTLID:  "the controller identifier",
	capsule.ConnectOffsetSubNQN:  "the subsystem's name: no such subsystem here",
	capsule.ConnectOffsetHostNQN: "the host's name",
}

// connectField names the field at an invalid parameter offset.
func connectField(p capsule.InvalidParameter) string {
	fields, where := connectCommandFields, "command"
	if p.In == capsule.InvalidInData {
		fields, where = connectDataFields, "data"
	}
	if name, ok := fields[p.Offset]; ok {
		return name
	}
	return fmt.Sprintf("byte %d of its %s", p.Offset, where)
}

// RejectStatus returns the status with which a controller rejected a queue's connection, or 0 if err is not such a
// rejection.
func RejectStatus(err error) capsule.RejectStatus {
	var reject *rdmatransport.RejectError
	if !errors.As(err, &reject) || reject.Reason != rdmatransport.RejectConsumer {
		return 0
	}
	d, err := capsule.DecodeRejectData(reject.PrivateData)
	if err != nil || d.RECFMT != 0 {
		return 0
	}
	return d.STS
}

// commandName returns the name of a command in errors.
func commandName(c *capsule.Command, admin bool) string {
	switch {
	case c.Opcode == capsule.OpcodeFabrics:
		return c.FabricsType().String()
	case admin:
		return capsule.AdminOpcode(c.Opcode).String()
	}
	return capsule.IOOpcode(c.Opcode).String()
}

// statusError returns the error of a completed command, or nil for success.
func statusError(c *capsule.Command, admin bool, done capsule.Completion) error {
	if done.Status.OK() {
		return nil
	}
	return &StatusError{commandName(c, admin), done.Status, done.Result}
}

// operationError converts an error of package operation to the error that users see.
func operationError(err error) error {
	switch e := err.(type) {
	case *operation.Refusal:
		return statusError(&e.Command, false, e.Completion)
	case *operation.Unsent:
		return &UnsentError{e.Err}
	}
	return err
}
