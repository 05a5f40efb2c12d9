package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An Event is something that an engine is to know.
type Event interface{ event() }

// Events of the gateway itself.
type (
	// Begin starts a new incarnation, whose clients of the storage have these addresses. All
	// clients of the one before are closed.
	Begin struct {
		Incarnation Incarnation
		Storage     []string
	}
	// Storage says that the clients of an incarnation have other addresses: before I/O by them. Of another
	// incarnation than that of now it changes nothing: whoever fences this one would fence clients that are gone.
	Storage struct {
		Incarnation Incarnation
		Addresses   []string
	}
	// Configure says which groups there are.
	Configure struct{ Groups []Group }
	// Loads says how much I/O each group has that is served here, and how many bytes its namespaces have together.
	Loads struct {
		Loads map[ID]uint64
		Sizes map[ID]int64
	}
	// Tick says that the deadline has come.
	Tick struct{}
	// Leave says that the gateway is to give back all groups, and end.
	Leave struct{}
)

// Events of the store. For each Get and Txn comes exactly one.
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
	// Drained is the result of a Drain: nothing of the group is under way, what was written is
	// durable, and the storage is released. With an error it is not.
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
	// Health says whether the gateway cannot serve, as one that no host reaches: others are to serve
	// then, unless none of them can.
	Health struct{ Stuck bool }
	// Behind says whether the gateway does not have the group's configuration: others get the
	// groups that are to be taken, where they can, since it may not know them. Starting says that it has
	// just been started: it need not be sick.
	Behind struct{ Behind, Starting bool }
	// Gone says that no process of an incarnation is left, which the caller is sure of.
	Gone struct{ Incarnation Incarnation }
)

// A Command is one of the administrator. Its result is an Answer with the same token.
type Command struct {
	Token   uint64
	Kind    CommandKind
	Gateway string // whom it concerns; of MoveGroup: the new owner
	Group   ID

	begun  bool        // something of it was sent to the store
	victim Incarnation // of FailGateway: which was found under the name
}

// Cancel says that nobody waits for a Command any more: if nothing of it is under way it is not carried
// out, as one would be when the store answers again an hour later.
type Cancel struct{ Token uint64 }

// A CommandKind says what the administrator wants.
type CommandKind int

// The commands.
const (
	DrainGateway   CommandKind = iota // it is to own nothing, until UndrainGateway
	UndrainGateway                    // it may own groups again
	RemoveGateway                     // one that has ended is forgotten
	FailGateway                       // its incarnation ends now
	MoveGroup                         // a group is to be the gateway's
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

// An Action is something that the caller is to do, in the order of the actions.
type Action interface{ action() }

type (
	// Get reads all entries under a prefix: Got.
	Get struct {
		Token  uint64
		Prefix string
	}
	// Txn carries out a transaction: Committed.
	Txn struct {
		Token uint64
		Txn   state.Txn
	}
	// Fence has the storage refuse an incarnation, for good: FenceResult, without an error
	// only once nothing of it can take effect any more where a group is served later. On Ceph OSDs
	// that do not have the map yet which says so take, and acknowledge, what a gateway writes that
	// does not know of its fence. So a target that takes a group (Serve) has each OSD of the group's
	// pools get that map first, by visiting their placement groups, and fails where one does not answer.
	Fence struct {
		Name        string
		Incarnation Incarnation
		Storage     []string
	}
	// Serve has the target serve a group: Served. It ends a Drain of the same epoch.
	Serve struct {
		Group   ID
		Epoch   uint64
		Backend Backend
	}
	// Drain has the target take no more commands for a group, and end what is under way:
	// Drained.
	Drain struct {
		Group ID
		Epoch uint64
	}
	// Stop has the target take no more commands for a group, at once, and answer none that
	// is under way as done from then on.
	Stop struct {
		Group ID
		Epoch uint64
	}
	// Extend says until when groups of a lease may be served, by the engine's clock. The target
	// looks at it before each command.
	Extend struct{ Until time.Duration }
	// Rejoin ends the incarnation: all clients of the storage are closed, then comes Begin.
	Rejoin struct{ Why string }
	// Left says that the gateway has left: nothing comes after it. A Txn before it may be
	// under way, and is to be carried out.
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
		Duration time.Duration // since its owner was last heard, or was asked to give it back
	}
	// Alarm is what an administrator has to know. It is repeated each minute while it lasts.
	Alarm struct {
		Kind    AlarmKind
		Gateway string
		Group   ID // 0: of no group
		Text    string
	}
)

// An AlarmKind is a kind of alarm, in words that do not change.
type AlarmKind string

// The kinds of alarms.
const (
	AlarmRefused    AlarmKind = "takeover-refused"
	AlarmNameInUse  AlarmKind = "name-in-use"
	AlarmNoSlot     AlarmKind = "no-slot"
	AlarmFence      AlarmKind = "fence-fails"
	AlarmUnreadable AlarmKind = "state-unreadable"
	AlarmStore      AlarmKind = "store-went-back"
	AlarmUnfenced   AlarmKind = "unfenced-takeover"
	AlarmDrain      AlarmKind = "drain-failed"
	AlarmServe      AlarmKind = "serve-failed"
	AlarmRejoined   AlarmKind = "fenced" // of the runner, for each Rejoin
)

// AlarmKinds are all kinds of alarms.
func AlarmKinds() []AlarmKind {
	return []AlarmKind{AlarmRefused, AlarmNameInUse, AlarmNoSlot, AlarmFence, AlarmUnreadable, AlarmStore, AlarmUnfenced, AlarmDrain, AlarmServe, AlarmRejoined}
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
