package group

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An Engine makes the decisions of one gateway.
type Engine struct {
	cfg Config

	now  time.Duration
	wake time.Duration // the earliest time for which something waits
	out  []Action

	stage    stage
	inc      Incarnation
	past     []Incarnation            // the incarnations of this process
	clients  map[Incarnation][]string // the storage addresses of these
	storage  []string
	groups   groups
	loads    map[ID]uint64
	sizes    map[ID]int64
	leaving  time.Duration // since when; 0: not leaving
	sick     time.Duration // until when, because it could not fence another gateway; 0: not
	stuck    bool          // it cannot serve: see Health
	behind   bool          // it lacks the group's configuration
	starting bool          // it has not tried to get the configuration yet

	view      view
	weight    map[ID]uint64 // of each group, as last read
	reports   map[ID]uint64 // the last report of each
	load      uint64        // of all groups
	store     exchange
	loss      loss
	beats     beating
	observed  map[Incarnation]observation
	fences    fences
	held      holdings
	latest    epochs
	progress  time.Duration // when one of these was last served or drained
	turnovers turnovers
	plan      planning

	commands []Command
	gone     []Incarnation // incarnations that are to be noted as gone
	alarms   map[alarmKey]time.Duration
}

// A stage is a stage in the life of an incarnation.
type stage int

const (
	outside stage = iota // waits for Begin
	joining              // not registered
	member               // registered
	left                 // has left and does nothing more
)

// never is later than any time.
const never = time.Duration(1<<63 - 1)

// New returns an engine that waits for Begin and Configure.
func New(c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Engine{
		cfg: c, wake: never, observed: map[Incarnation]observation{}, fences: fences{}, clients: map[Incarnation][]string{},
		held: holdings{}, latest: epochs{}, turnovers: turnovers{}, plan: planning{epochs: map[ID]uint64{}, avoided: map[ID]time.Duration{}}, alarms: map[alarmKey]time.Duration{},
	}, nil
}

// Deadline returns when the next Tick is due.
func (e *Engine) Deadline() time.Duration { return e.wake }

// Step handles an event and returns the actions to be executed.
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
			e.quit("the storage refused this gateway, because another gateway has fenced it")
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

// ErrRejoining is the answer to commands that were not executed before the incarnation ended.
var ErrRejoining = errors.New("this gateway was fenced and is registering again: repeat the command")

// begin starts an incarnation. It fences again what the previous one has fenced, because its storage clients are
// different.
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

// work does everything that is due. It is called after each event.
func (e *Engine) work() {
	for _, part := range []func(){e.lapse, e.timeouts, e.beat, e.renewFences, e.decide, e.read, func() { e.store.refusal.report(e) }} {
		if e.stage == outside || e.stage == left {
			return
		}
		part()
	}
}

// decide compares the store's state with the intended one. It makes one change at a time and decides about the next one
// after that change has been read.
func (e *Engine) decide() {
	if !e.store.settled() {
		return
	}
	if e.view.superseded(e.cfg.Name, e.inc, e.stage) {
		why := "another gateway has fenced this gateway"
		if (lossDetector{e}).lost() {
			why = "the group's store has lost the registration of this gateway"
		}
		e.quit(why)
		return
	}
	if (lossDetector{e}).lost() {
		e.held.dropUnowned(e)
		return
	}
	if key, err := e.view.unreadable(); err != nil {
		e.alarm(Alarm{Kind: AlarmUnreadable, Text: key + ": " + err.Error() + "; restore this key of the group's store from a backup" + orRemove(key)})
	}
	if e.stage == joining {
		e.join()
		return
	}
	if e.own() == nil { // the registration cannot be read: without heartbeats this gateway changes nothing until it can be
		return
	}
	e.reconcile()
	e.startDrains()
	e.startFences()
	e.fences.count(e)
	e.leave()
	for _, change := range []func() *state.Txn{
		sessionFinder{e}.settle, e.update, e.handOver, e.giveUp, e.expel, e.take, e.noteFences, e.command, e.planMoves,
	} {
		if e.stage != member { // the incarnation has ended
			return
		}
		if t := change(); t != nil {
			e.commit(*t)
			return
		}
	}
}

// stop stops serving all groups.
func (e *Engine) stop() {
	for _, id := range e.held.ids() {
		e.drop(id)
	}
}

// quit ends the incarnation. It writes nothing to the store: the next incarnation or another gateway ends the
// registration, whatever is still in progress.
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

// at requests a Tick.
func (e *Engine) at(t time.Duration) { e.wake = min(e.wake, max(t, e.now)) }

// own returns the entry of this gateway's registration.
func (e *Engine) own() *entry[Member] { return e.view.living(e.inc) }

// alarmEvery is the interval at which an alarm is repeated while its cause lasts.
const alarmEvery = time.Minute

// An alarmKey identifies the subject of an alarm. The text may differ each time, for example in the port of a
// connection.
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
