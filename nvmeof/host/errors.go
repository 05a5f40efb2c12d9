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
	// ErrClosed is a controller that [Controller.Disconnect] or [Host.Close] has
	// disconnected. Of NewQueue it is a [backend.ErrClosed] too.
	ErrClosed = association.ErrClosed

	// ErrUnaligned and ErrOutOfRange are requests that were not sent, since their range
	// is not one of whole blocks of the namespace. They are a [backend.ErrInvalid] and a
	// [backend.ErrOutOfRange] too, as the answers of a controller are that say the same.
	ErrUnaligned  error = &storeError{"offset or length is not a multiple of the block size", backend.ErrInvalid}
	ErrOutOfRange error = &storeError{"range is not within the namespace", backend.ErrOutOfRange}

	// ErrRemoved is a namespace that the controller no longer has, or whose identifier belongs to
	// another namespace now. The status Invalid Namespace is an ErrRemoved too.
	ErrRemoved = errors.New("namespace was removed")

	// ErrUnseen is a namespace for which the last Identify failed or got no response. It may
	// be another one now, so that nothing is sent to it until a [Namespace.Refresh] has
	// identified it.
	ErrUnseen = errors.New("namespace could not be identified again, and may be a different one")

	// ErrNotReady is a namespace that exists, and whose store the controller does not have for now.
	// The controller reports by an event when that changes.
	ErrNotReady = errors.New("namespace is not ready: the target waits for what it exports")

	// ErrShortData is a Read, or an Identify, that the controller completed with success without
	// having sent all of its data: what is in the buffer may be older. It is detected if each
	// command has a key of its own and the RDMA provider counts the data, as softroce does and
	// RNICs do not.
	ErrShortData = fabric.ErrShortData

	// ErrUnsupported is a [backend.ErrUnsupported] too.
	ErrUnsupported error = &storeError{"controller does not support the command", backend.ErrUnsupported}
)

// An UnsentError is a request of which nothing was sent, since the controller was lost before. With
// any other error of a lost controller, it is unknown whether a request was executed.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// An UnusableError is a namespace that exists and that this host cannot use, as its Identify data
// show.
type UnusableError struct {
	ID  capsule.NSID
	Err error // why
}

func (e *UnusableError) Error() string { return fmt.Sprintf("namespace %d: %v", e.ID, e.Err) }

func (e *UnusableError) Unwrap() error { return e.Err }

// Removed is the error of the namespace whose identifier it has taken.
func (e *UnusableError) Removed() *RemovedError {
	return &RemovedError{e.ID, fmt.Sprintf("is a different one, which this host cannot use: %v", e.Err)}
}

// A RemovedError is an [ErrRemoved] that tells what has taken the namespace's place.
type RemovedError struct {
	ID  capsule.NSID
	Why string
}

func (e *RemovedError) Error() string { return fmt.Sprintf("namespace %d %s", e.ID, e.Why) }

func (e *RemovedError) Is(target error) bool { return target == ErrRemoved }

// A storeError is what a store says by an error of package backend.
type storeError struct {
	text string
	is   error
}

func (e *storeError) Error() string        { return e.text }
func (e *storeError) Is(target error) bool { return target == e.is }

// A StatusError is a command that the controller completed with an error.
type StatusError struct {
	Command string
	Status  capsule.Status
	Result  uint64 // DW0 and DW1 of the completion
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %v%s", e.Command, e.Status, e.hint())
}

// Is makes errors of package backend recognisable, so that a namespace can stand
// in for a local store.
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

// hint says what a failed Connect means and what helps.
func (e *StatusError) hint() string {
	if e.Command != connectName {
		return ""
	}
	switch e.Status.Code() {
	case capsule.StatusConnectInvalidParam:
		return ": the controller objects to " + connectField(capsule.ParseInvalidParameter(e.Result))
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

// ObjectsToIdentifier reports whether a Connect was refused for the host identifier: the
// host's name is not what is wrong.
func (e *StatusError) ObjectsToIdentifier() bool {
	p := capsule.ParseInvalidParameter(e.Result)
	return e.Command == connectName && e.Status.Code() == capsule.StatusConnectInvalidHost &&
		p.In == capsule.InvalidInData && p.Offset == capsule.ConnectOffsetHostID
}

// hostHint says what helps a host that was refused.
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

// connectField names what an invalid parameter offset points at.
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

// RejectStatus is the reason that a controller gave for rejecting a queue's
// connection, 0 if err is nothing of that kind.
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

// commandName is what errors call a command.
func commandName(c *capsule.Command, admin bool) string {
	switch {
	case c.Opcode == capsule.OpcodeFabrics:
		return c.FabricsType().String()
	case admin:
		return capsule.AdminOpcode(c.Opcode).String()
	}
	return capsule.IOOpcode(c.Opcode).String()
}

// statusError is the error of a completed command, nil for success.
func statusError(c *capsule.Command, admin bool, done capsule.Completion) error {
	if done.Status.OK() {
		return nil
	}
	return &StatusError{commandName(c, admin), done.Status, done.Result}
}

// operationError is the error of an operation as users know it.
func operationError(err error) error {
	switch e := err.(type) {
	case *operation.Refusal:
		return statusError(&e.Command, false, e.Completion)
	case *operation.Unsent:
		return &UnsentError{e.Err}
	}
	return err
}
