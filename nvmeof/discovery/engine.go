package discovery

import (
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A nodeID identifies a followed controller. None is reused.
type nodeID int

// An order is an action that the engine requests.
type order struct {
	kind orderKind
	id   nodeID
	at   Endpoint // orderConnect
}

type orderKind uint8

const (
	orderConnect orderKind = iota // connect and read the log; the result is logged or failed
	orderRead                     // read the log on a live connection; likewise
	orderDrop                     // disconnect; later results of the node are ignored
)

// state is the state of a node.
type state uint8

const (
	stateWaiting state = iota // for the time of the next attempt to connect
	stateBusy                 // an order is being executed
	stateLive                 // connected, and its log has been read
	stateDone                 // its log was read, or it was given up
)

// A node is one discovery controller.
type node struct {
	id    nodeID
	at    Endpoint
	name  nvmeof.NQN // its unique NQN, once known
	seed  bool
	depth int

	state state
	live  bool      // connected, possibly busy
	again bool      // a change was reported while the log was being read
	when  time.Time // stateWaiting: next attempt; stateLive: next periodic read, zero if none
	pause time.Duration
	tried int

	records   []Record // of subsystems, as last read
	referrals []Record
}

// An engine decides what to do. It is owned by one goroutine.
type engine struct {
	config Config
	nodes  []*node // in the order in which they were found
	last   nodeID

	records map[key]*known
	skipped map[key]bool // already reported as skipped

	orders []order
	events []Event
}

// A known is a record with the number of nodes that have it.
type known struct {
	record Record
	count  int
}

func newEngine(c Config) *engine {
	return &engine{config: c.complete(), records: map[key]*known{}, skipped: map[key]bool{}}
}

// take returns the orders and events since the last call.
func (e *engine) take() (orders []order, events []Event) {
	orders, events = e.orders, e.events
	e.orders, e.events = nil, nil
	return orders, events
}

// start follows a controller given by the caller.
func (e *engine) start(now time.Time, at Endpoint) {
	if n := e.find(at); n != nil {
		n.seed, n.depth = true, 0
		return
	}
	e.add(now, at, 0).seed = true
	e.advance(now)
}

// stop stops following a controller that was given to start, and all controllers reached only through it.
func (e *engine) stop(now time.Time, at Endpoint) {
	if n := e.find(at); n != nil {
		n.seed = false
		e.walk(now)
	}
}

// find returns the node of an endpoint, by either NQN.
func (e *engine) find(at Endpoint) *node {
	for _, n := range e.nodes {
		if n.at == at || n.at.Scope == at.Scope && n.at.Addr == at.Addr && n.name == at.NQN {
			return n
		}
	}
	return nil
}

func (e *engine) node(id nodeID) *node {
	for _, n := range e.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

func (e *engine) add(now time.Time, at Endpoint, depth int) *node {
	e.last++
	n := &node{id: e.last, at: at, depth: depth, when: now}
	e.nodes = append(e.nodes, n)
	return n
}

// A reading is a log that was read.
type reading struct {
	log     Log
	name    nvmeof.NQN // the subsystem's unique NQN; may be empty
	notices bool       // the controller reports changes
}

// logged handles a log that was read.
func (e *engine) logged(now time.Time, id nodeID, r reading) {
	n := e.node(id)
	if n == nil {
		return
	}
	n.name = r.name
	n.tried, n.pause = 0, 0
	n.state, n.when = stateDone, time.Time{}
	if n.live = e.config.Persistent; n.live {
		n.state = stateLive
		if !r.notices {
			n.when = now.Add(e.config.Poll)
		}
	}
	e.events = append(e.events, Event{Kind: Logged, At: n.at, Log: r.log})
	subsystems, referrals := split(n.at.Scope, r.log.Entries)
	n.referrals = referrals
	e.replace(n, subsystems)
	e.walk(now)
	if n.again && n.live && e.node(id) != nil { // walk may have dropped it, if no referral leads to its new name
		e.read(n)
	}
	e.advance(now)
}

// failed handles a node that could not be connected to, or whose connection or log was lost.
func (e *engine) failed(now time.Time, id nodeID, err error) {
	n := e.node(id)
	if n == nil || n.state == stateDone {
		return
	}
	n.live, n.again = false, false
	n.tried++
	n.state = stateDone
	again := time.Duration(0)
	silent := errors.Is(err, rdmatransport.ErrUnreachable) // connecting has already sent several requests
	if e.config.Persistent || n.tried < e.config.Attempts && !silent {
		n.pause = min(max(2*n.pause, e.config.MinPause), e.config.MaxPause)
		again = n.pause
		n.state, n.when = stateWaiting, now.Add(again)
	}
	e.events = append(e.events, Event{Kind: Unreachable, At: n.at, Err: err, Again: again})
}

// changed handles a controller's report that its log has changed.
func (e *engine) changed(id nodeID) {
	switch n := e.node(id); {
	case n == nil:
	case n.state == stateLive:
		e.read(n)
	case n.state == stateBusy:
		n.again = true
	}
}

func (e *engine) read(n *node) {
	n.state, n.again, n.when = stateBusy, false, time.Time{}
	e.orders = append(e.orders, order{kind: orderRead, id: n.id})
}

// advance executes what is due.
func (e *engine) advance(now time.Time) {
	for _, n := range e.nodes {
		if n.when.IsZero() || n.when.After(now) {
			continue
		}
		switch n.state {
		case stateWaiting:
			n.state, n.again, n.when = stateBusy, false, time.Time{}
			e.orders = append(e.orders, order{orderConnect, n.id, n.at})
		case stateLive:
			e.read(n)
		}
	}
}

// next returns when advance will have something to do; zero: never, unless something happens.
func (e *engine) next() (at time.Time) {
	for _, n := range e.nodes {
		if !n.when.IsZero() && (at.IsZero() || n.when.Before(at)) {
			at = n.when
		}
	}
	return at
}

// done reports whether nothing can happen any more.
func (e *engine) done() bool {
	return !slices.ContainsFunc(e.nodes, func(n *node) bool { return n.state != stateDone })
}

// split splits a log's entries by type. Entries of the discovery subsystem itself are ignored: they lead nowhere new.
func split(scope Scope, entries []capsule.DiscoveryEntry) (subsystems, referrals []Record) {
	for _, entry := range entries {
		switch entry.SUBTYPE {
		case capsule.SubsystemNVM:
			subsystems = append(subsystems, Record{scope, entry})
		case capsule.SubsystemReferral:
			referrals = append(referrals, Record{scope, entry})
		}
	}
	return subsystems, referrals
}
