package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An Event is an input of an engine.
type Event interface{ event() }

// Events of the gateway itself.
type (
	// Begin starts a new incarnation, whose storage clients have these addresses. All clients of the previous one must
	// be closed.
	Begin struct {
		Incarnation Incarnation
		Storage     []string
	}
	// Storage says that the storage clients of an incarnation have different addresses; it must come before their first
	// I/O. It is ignored for any incarnation other than the present one: otherwise a gateway that fences the present
	// one would fence clients that no longer exist.
	Storage struct {
		Incarnation Incarnation
		Addresses   []string
	}
	// Configure sets the configured groups.
	Configure struct{ Groups []Group }
	// Loads reports the I/O of each group that is served here, and the total size of its namespaces in bytes.
	Loads struct {
		Loads map[ID]uint64
		Sizes map[ID]int64
	}
	// Tick says that the deadline has passed.
	Tick struct{}
	// Leave makes the gateway give back all groups and end.
	Leave struct{}
)

// Events of the store. Each Get and each Txn is followed by exactly one result.
type (
	// Got is the result of a Get.
	Got struct {
		Token    uint64
		Snapshot state.Snapshot
		Err      error
	}
	// Committed is the result of a Txn.
	Committed struct {
		Token  uint64
		Result state.Result
		Err    error
	}
	// Changed says that something under GroupPrefix may have changed.
	Changed struct{}
)

// Events of the target and its storage.
type (
	// Served is the result of a Serve: the group is served, or cannot be.
	Served struct {
		Group ID
		Epoch uint64
		Err   error
	}
	// Drained is the result of a Drain. Without an error no command of the group is in progress, everything written is
	// durable, and the storage is released.
	Drained struct {
		Group ID
		Epoch uint64
		Err   error
	}
	// FenceResult is the result of a Fence.
	FenceResult struct {
		Incarnation Incarnation
		Err         error
	}
	// Blocklisted says that the storage has refused this incarnation.
	Blocklisted struct{ Incarnation Incarnation }
	// Health says whether the gateway is stuck: unable to serve, for example because no host reaches it. Then other
	// gateways should serve its groups, unless none of them can.
	Health struct{ Stuck bool }
	// Behind says whether the gateway lacks the group's configuration. Other gateways then take orphaned groups in
	// preference to this one, which may not know them. Starting says that the gateway has just been started, which need
	// not be a fault.
	Behind struct{ Behind, Starting bool }
	// Gone says that no process of an incarnation exists any more. The caller must be sure of that.
	Gone struct{ Incarnation Incarnation }
)

// A Command is a command of the administrator. Its result is an Answer with the same token.
type Command struct {
	Token   uint64
	Kind    CommandKind
	Gateway string // the gateway concerned; for MoveGroup: the new owner
	Group   ID

	begun  bool        // a part of it was sent to the store
	victim Incarnation // of FailGateway: the incarnation that was found under the name
}

// Cancel says that the caller no longer waits for a Command. If nothing of the command was begun it is dropped:
// otherwise it might be executed an hour later, when the store answers again.
type Cancel struct{ Token uint64 }

// A CommandKind is a kind of command.
type CommandKind int

// The commands.
const (
	DrainGateway   CommandKind = iota // the gateway must own nothing until UndrainGateway
	UndrainGateway                    // it may own groups again
	RemoveGateway                     // forget a gateway that has ended
	FailGateway                       // end the gateway's incarnation now
	MoveGroup                         // move a group to the gateway
)

func (Begin) event()       {}
func (Storage) event()     {}
func (Configure) event()   {}
func (Loads) event()       {}
func (Tick) event()        {}
func (Leave) event()       {}
func (Got) event()         {}
func (Committed) event()   {}
func (Changed) event()     {}
func (Served) event()      {}
func (Drained) event()     {}
func (FenceResult) event() {}
func (Blocklisted) event() {}
func (Health) event()      {}
func (Behind) event()      {}
func (Gone) event()        {}
func (Command) event()     {}
func (Cancel) event()      {}

// An Action is an output of an engine. The caller must execute actions in order.
type Action interface{ action() }

type (
	// Get reads all entries under a prefix. The result is Got.
	Get struct {
		Token  uint64
		Prefix string
	}
	// Txn executes a transaction. The result is Committed.
	Txn struct {
		Token uint64
		Txn   state.Txn
	}
	// Fence makes the storage refuse an incarnation permanently. The result is FenceResult. It has no error only when
	// nothing of that incarnation can take effect any more where a group is served later. On Ceph, an OSD without the
	// map that contains the fence still executes and acknowledges what a fenced gateway writes. So a target that takes
	// a group (Serve) first makes each OSD of the group's pools get that map, by visiting their placement groups, and
	// fails if one does not answer.
	Fence struct {
		Name        string
		Incarnation Incarnation
		Storage     []string
	}
	// Serve makes the target serve a group. The result is Served. It ends a Drain of the same epoch.
	Serve struct {
		Group   ID
		Epoch   uint64
		Backend Backend
	}
	// Drain makes the target accept no more commands for a group and finish those in progress. The result is Drained.
	Drain struct {
		Group ID
		Epoch uint64
	}
	// Stop makes the target accept no more commands for a group, at once. From then on no command in progress is
	// answered with success.
	Stop struct {
		Group ID
		Epoch uint64
	}
	// Extend sets the time until which groups with leases may be served, by the engine's clock. The target checks it
	// before each command.
	Extend struct{ Until time.Duration }
	// Rejoin ends the incarnation: the caller closes all storage clients and then sends Begin.
	Rejoin struct{ Why string }
	// Left says that the gateway has left; it is the last action. A Txn before it may be in progress and must still be
	// executed.
	Left struct{}
	// Answer is the result of a Command.
	Answer struct {
		Token uint64
		Err   error
	}
	// Took says that the target serves a group for the first time in an epoch.
	Took struct {
		Group    ID
		Epoch    uint64
		Reason   Reason
		Duration time.Duration // since its owner was last heard from, or was asked to give it back
	}
	// Alarm is a message for the administrator. It is repeated every minute while its cause lasts.
	Alarm struct {
		Kind    AlarmKind
		Gateway string
		Group   ID // 0: of no group
		Text    string
	}
)

// An AlarmKind is a kind of alarm. Its text never changes.
type AlarmKind string

// The kinds of alarms.
const (
	AlarmRefused    AlarmKind = "takeover-refused"
	AlarmNameInUse  AlarmKind = "name-in-use"
	AlarmNoSlot     AlarmKind = "no-slot"
	AlarmFence      AlarmKind = "fence-fails"
	AlarmFences     AlarmKind = "many-fences"
	AlarmUnreadable AlarmKind = "state-unreadable"
	AlarmStore      AlarmKind = "store-went-back"
	AlarmReadOnly   AlarmKind = "store-read-only"
	AlarmUnfenced   AlarmKind = "unfenced-takeover"
	AlarmDrain      AlarmKind = "drain-failed"
	AlarmServe      AlarmKind = "serve-failed"
	AlarmRejoined   AlarmKind = "fenced" // sent by the runner for each Rejoin
)

// AlarmKinds returns all kinds of alarms.
func AlarmKinds() []AlarmKind {
	return []AlarmKind{AlarmRefused, AlarmNameInUse, AlarmNoSlot, AlarmFence, AlarmFences, AlarmUnreadable, AlarmStore, AlarmReadOnly, AlarmUnfenced, AlarmDrain, AlarmServe, AlarmRejoined}
}

func (Get) action()    {}
func (Txn) action()    {}
func (Fence) action()  {}
func (Serve) action()  {}
func (Drain) action()  {}
func (Stop) action()   {}
func (Extend) action() {}
func (Rejoin) action() {}
func (Left) action()   {}
func (Answer) action() {}
func (Took) action()   {}
func (Alarm) action()  {}
