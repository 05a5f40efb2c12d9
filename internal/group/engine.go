package group

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An Engine decides for one gateway.
type Engine struct {
	cfg Config

	now  time.Duration
	wake time.Duration // the earliest time that something waits for
	out  []Action

	stage    stage
	inc      Incarnation
	past     []Incarnation            // of this process
	clients  map[Incarnation][]string // of the storage, of these
	storage  []string
	groups   groups
	loads    map[ID]uint64
	sizes    map[ID]int64
	leaving  time.Duration // since when, 0: it is not
	sick     time.Duration // until when: it could not fence another; 0: it is not
	stuck    bool          // it cannot serve: see Health
	behind   bool          // it does not have the group's configuration
	starting bool          // it has not tried to get it yet

	view      view
	weight    map[ID]uint64 // of each group, as was last read
	reports   map[ID]uint64 // what was last reported of each
	load      uint64        // of all groups
	store     exchange
	loss      loss
	beats     beating
	pulses    map[Incarnation]pulse
	fences    fences
	held      holdings
	latest    epochs
	progress  time.Duration // when a group of these was last served, or drained
	turnovers turnovers
	plan      planning

	commands []Command
	gone     []Incarnation // which are to be noted
	alarms   map[alarmKey]time.Duration
}

// A stage is how far an incarnation has come.
type stage int

const (
	outside stage = iota // waits for Begin
	joining              // is not registered
	member               // is registered
	left                 // has left, and does nothing more
)

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// New returns an engine, which waits for Begin and Configure.
func New(c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Engine{
		cfg: c, wake: never, pulses: map[Incarnation]pulse{}, fences: fences{}, clients: map[Incarnation][]string{},
		held: holdings{}, latest: epochs{}, turnovers: turnovers{}, plan: planning{epochs: map[ID]uint64{}, avoided: map[ID]time.Duration{}}, alarms: map[alarmKey]time.Duration{},
	}, nil
}

// Deadline is when the next Tick is due.
func (e *Engine) Deadline() time.Duration { return e.wake }

// Step takes an event, and returns what is to be done.
func (e *Engine) Step(now time.Duration, ev Event) []Action {
	e.now, e.out, e.wake = max(now, e.now), nil, never
	e.handle(ev)
	e.work()
	return e.out
}

func (e *Engine) handle(ev Event) {
	switch ev := ev.(type) {
	case Begin:
		e.begin(ev)
	case Storage:
		if ev.Incarnation == e.inc {
			e.storage = ev.Addresses
		}
	case Configure:
		e.configure(ev.Groups)
	case Loads:
		e.loads, e.sizes = ev.Loads, ev.Sizes
	case Leave:
		e.startLeaving()
	case Got:
		e.got(ev)
	case Committed:
		e.committed(ev)
	case Changed:
		e.store.all.due = e.now
	case Served:
		e.served(ev)
	case Drained:
		e.drained(ev)
	case FenceResult:
		e.fenceResult(ev)
	case Blocklisted:
		if ev.Incarnation == e.inc && e.stage != outside {
			e.quit("the storage has refused this gateway, which another one has fenced")
		}
	case Health:
		was := e.isSick()
		e.stuck = ev.Stuck
		e.publish(was)
	case Behind:
		was := e.isSick()
		e.behind, e.starting = ev.Behind, ev.Starting
		e.publish(was)
	case Gone:
		e.gone = append(e.gone, ev.Incarnation)
	case Command:
		e.commands = append(e.commands, ev)
	case Cancel:
		e.commands = slices.DeleteFunc(e.commands, func(c Command) bool { return c.Token == ev.Token })
	}
}

// ErrRejoining answers commands that were not carried out before the incarnation ended.
var ErrRejoining = errors.New("the gateway was fenced, and registers again: repeat the command")

// begin starts an incarnation. What the one before has fenced is fenced again by this one,
// whose clients of the storage are others.
func (e *Engine) begin(ev Begin) {
	if e.stage == left {
		return
	}
	if e.inc != "" {
		e.past = append(e.past, e.inc)
		e.clients[e.inc] = e.storage
	}
	e.stop()
	e.stage, e.inc, e.storage = joining, ev.Incarnation, ev.Storage
	e.fences = map[Incarnation]*fencing{}
	e.store.restart(e.now)
	e.beats = beating{}
	e.sick, e.stuck = 0, false
}

func (e *Engine) startLeaving() {
	switch {
	case e.leaving > 0:
	case e.stage == outside:
		e.leaving, e.stage = max(e.now, 1), left
		e.act(Left{})
	default:
		e.leaving = max(e.now, 1)
	}
}

func (e *Engine) configure(groups []Group) {
	e.groups = slices.Clone(groups)
	slices.SortFunc(e.groups, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	e.weigh()
}

// work does what there is to do, after each event.
func (e *Engine) work() {
	for _, part := range []func(){e.lapse, e.timeouts, e.beat, e.renewFences, e.decide, e.read} {
		if e.stage == outside || e.stage == left {
			return
		}
		part()
	}
}

// decide compares what was read with what should be. It makes one change at a time: what
// follows is decided when that has been read.
func (e *Engine) decide() {
	if !e.store.settled() {
		return
	}
	if e.view.superseded(e.cfg.Name, e.inc, e.stage) {
		why := "another gateway has fenced this one"
		if (witness{e}).lost() {
			why = "the store has lost its registration"
		}
		e.quit(why)
		return
	}
	if (witness{e}).lost() {
		e.held.giveWay(e)
		return
	}
	if key, err := e.view.unreadable(); err != nil {
		e.alarm(Alarm{Kind: AlarmUnreadable, Text: key + ": " + err.Error() + "; restore it from a copy of the store" + orRemove(key)})
	}
	if e.stage == joining {
		e.join()
		return
	}
	if e.own() == nil { // it cannot be read: this gateway, which has no heartbeats then, changes nothing until it can
		return
	}
	e.reconcile()
	e.startDrains()
	e.startFences()
	e.leave()
	for _, change := range []func() *state.Txn{
		newcomer{e}.settle, e.update, e.handOver, e.giveUp, e.accuse, e.take, e.noteFences, e.command, e.planMoves,
	} {
		if e.stage != member { // it has ended
			return
		}
		if t := change(); t != nil {
			e.commit(*t)
			return
		}
	}
}

// stop ends the service of everything.
func (e *Engine) stop() {
	for _, id := range e.held.ids() {
		e.drop(id)
	}
}

// quit ends the incarnation. Nothing is written to the store: the next incarnation ends the
// registration of this one, or another gateway does, whatever is still under way.
func (e *Engine) quit(why string) {
	e.stop()
	e.stage = outside
	for _, c := range e.commands {
		e.act(Answer{c.Token, ErrRejoining})
	}
	e.commands = nil
	if e.leaving > 0 {
		e.stage = left
		e.act(Left{})
		return
	}
	e.act(Rejoin{why})
}

func (e *Engine) act(a Action) { e.out = append(e.out, a) }

// at asks for a Tick.
func (e *Engine) at(t time.Duration) { e.wake = min(e.wake, max(t, e.now)) }

// own is the entry of this gateway's registration.
func (e *Engine) own() *entry[Member] { return e.view.living(e.inc) }

// alarmEvery is how often an alarm is repeated while it lasts.
const alarmEvery = time.Minute

// An alarmKey is what an alarm is about. Texts may differ each time, as those with the port of a
// connection do.
type alarmKey struct {
	kind    AlarmKind
	gateway string
	group   ID
}

func (e *Engine) alarm(a Alarm) {
	key := alarmKey{a.Kind, a.Gateway, a.Group}
	if last, ok := e.alarms[key]; ok && e.now-last < alarmEvery {
		return
	}
	e.alarms[key] = e.now
	e.act(a)
}
