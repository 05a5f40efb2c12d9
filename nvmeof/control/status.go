package control

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Status is the state of a target.
type Status struct {
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	Now         time.Time `json:"now"`
	File        string    `json:"file,omitempty"` // file of the configuration
	Waiting     []Waiting `json:"waiting"`
	Leaving     []Leaving `json:"leaving"`
	Troubles    []Trouble `json:"troubles"`
	Served      []Served  `json:"served"` // namespaces that are served
	Addresses   []Address `json:"addresses"`
	Listeners   int       `json:"listeners"`
	Subsystems  int       `json:"subsystems"`
	Namespaces  int       `json:"namespaces"`
	Controllers int       `json:"controllers"`
	// Gateway is what the target serves if it is one of several targets, else nil.
	Gateway *GatewayStatus `json:"gateway,omitempty"`

	Authentications  target.AuthCounts       `json:"authentications"`
	ControllerLimits target.ControllerCounts `json:"controller-limits"`
	Admission        target.AdmissionCounts  `json:"admission"`
	// Requests are connection requests that devices refused themselves.
	Requests    rdmatransport.RefusedRequests `json:"requests"`
	Undelivered uint64                        `json:"undelivered"` // connections that were closed since the host received nothing
	Slowed      uint64                        `json:"slowed"`      // times that a queue got less memory since its host did not deliver data
	Goroutines  int                           `json:"goroutines"`  // of the process, which normally has only the target's
}

// Waiting is an object for which the target waits: a namespace whose store is missing or faulty, a host whose key
// cannot be read, or a listener whose address or device is missing.
type Waiting struct {
	Subsystem nvmeof.NQN `json:"subsystem,omitempty"` // for a namespace or a host
	Host      nvmeof.NQN `json:"host,omitempty"`
	NSID      int        `json:"nsid,omitempty"`
	Export    string     `json:"export,omitempty"`
	Listener  int        `json:"listener,omitempty"`
	Address   string     `json:"address,omitempty"` // for a listener
	Why       string     `json:"why"`
	Since     time.Time  `json:"since"`
}

// Address is an address that a listener on 0.0.0.0 or [::] serves now.
type Address struct {
	Listener int    `json:"listener"`
	Address  string `json:"address"`
	Port     int    `json:"port-id"` // in the discovery log
}

// Trouble is a namespace that is served but needs attention. Without a subsystem, it is one of the target's own
// files, which lacks some of its content.
type Trouble struct {
	Subsystem nvmeof.NQN `json:"subsystem"`
	NSID      int        `json:"nsid"`
	Export    string     `json:"export"`
	Why       string     `json:"why"`
}

// troubles returns the troubles of the target. The caller holds mu.
func (m *Manager) troubles() []Trouble {
	out := []Trouble{}
	if m.cfg.Troubled != nil {
		out = append(out, m.cfg.Troubled()...)
	}
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is being removed
		}
		there := map[int]string{}
		for _, n := range s.Namespaces() {
			there[int(n.ID())] = n.Trouble()
		}
		for _, n := range d.Namespaces {
			if why := there[n.NSID]; why != "" {
				out = append(out, Trouble{d.NQN, n.NSID, exportName(n), why})
			}
		}
	}
	return out
}

// Status returns the present state of the target.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{PID: os.Getpid(), Started: m.started, Now: time.Now(), File: m.cfg.File,
		Listeners: len(m.doc.Listeners), Subsystems: len(m.doc.Subsystems), Waiting: []Waiting{}, Addresses: []Address{}, Leaving: m.left(), Troubles: m.troubles(), Served: served(m),
		Controllers:     len(m.target.Controllers()),
		Authentications: m.target.AuthCounts(), ControllerLimits: m.target.ControllerCounts(), Undelivered: m.target.Undelivered(), Slowed: m.target.Slowed(), Goroutines: runtime.NumGoroutine(),
		Admission: m.target.AdmissionCounts()}
	for _, d := range m.devices {
		if c, ok := d.rdma.(rdmatransport.RequestCounter); ok {
			n := c.RefusedRequests()
			s.Requests.TooMany += n.TooMany
			s.Requests.Backlog += n.Backlog
			s.Requests.HalfOpen += n.HalfOpen
		}
	}
	for _, d := range m.doc.Subsystems {
		s.Namespaces += len(d.Namespaces)
	}
	for at, w := range m.waiting {
		s.Waiting = append(s.Waiting, Waiting{Subsystem: at.nqn, NSID: at.nsid, Export: exportName(w.namespace), Why: w.why, Since: w.since})
	}
	s.Gateway = gatewayStatus(m.cfg.Gateway)
	s.Waiting = append(s.Waiting, foreignWaiting(m)...)
	for at, w := range m.keyless {
		s.Waiting = append(s.Waiting, Waiting{Subsystem: at.nqn, Host: at.host, Why: w.why, Since: w.since})
	}
	served := map[int]bool{}
	for id, l := range m.listeners {
		served[l.of] = true
		switch {
		case l.listener == nil:
			s.Waiting = append(s.Waiting, Waiting{Listener: l.of, Address: l.addr.String(), Why: l.why, Since: l.since})
		case m.wildcards[l.of] != nil:
			s.Addresses = append(s.Addresses, Address{l.of, l.addr.String(), id})
		case lacks(l.addr.Addr()): // the listener itself does not notice
			s.Waiting = append(s.Waiting, Waiting{Listener: l.of, Address: l.addr.String(), Since: s.Now,
				Why: "this machine no longer has the address (see ip address): hosts cannot connect to it until it is back"})
		}
	}
	for _, l := range m.doc.Listeners {
		if w := m.wildcards[l.ID]; w != nil && !served[l.ID] {
			s.Waiting = append(s.Waiting, Waiting{Listener: l.ID, Address: l.Address.String(), Why: "this machine has no such address that other machines can reach", Since: w.since})
		}
	}
	slices.SortFunc(s.Addresses, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.Address, b.Address))
	})
	slices.SortFunc(s.Waiting, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Subsystem, b.Subsystem), cmp.Compare(a.NSID, b.NSID), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.Address, b.Address))
	})
	return s
}

// Controller is a host's association, in the form of the API.
type Controller struct {
	Subsystem     nvmeof.NQN `json:"subsystem"`
	ID            int        `json:"id"`
	Discovery     bool       `json:"discovery,omitempty"`
	Host          nvmeof.NQN `json:"host"`
	HostID        string     `json:"host-id"`
	Peer          string     `json:"peer"`
	Listener      int        `json:"listener"`
	Authenticated bool       `json:"authenticated"`
	Connected     time.Time  `json:"connected"` // start time
	Queues        []Queue    `json:"queues"`    // I/O queues
}

// Queue is an I/O queue. Its counters start at 0 when it is connected.
type Queue struct {
	ID           int    `json:"id"`
	Depth        int    `json:"depth"`
	Shard        int    `json:"shard"`
	InFlight     uint64 `json:"in-flight"` // commands that were not answered yet
	Commands     uint64 `json:"commands"`
	ReadBytes    uint64 `json:"read-bytes"`
	WrittenBytes uint64 `json:"written-bytes"`
	CopiedReads  uint64 `json:"copied-reads"` // reads that were copied since writers waited for the memory
	Slowed       uint64 `json:"slowed"`       // times that it got less memory since the host did not deliver data
}

// Controllers returns the associations of hosts.
func (m *Manager) Controllers() []Controller {
	out := []Controller{}
	for _, c := range m.target.Controllers() {
		x := Controller{
			Subsystem: c.Subsystem, ID: int(c.ID), Discovery: c.Discovery, Host: c.HostNQN, HostID: uuid.UUID(c.HostID).String(),
			Peer: c.Peer.String(), Listener: m.listenerOf(c.Port), Authenticated: c.Authenticated, Connected: c.Connected, Queues: []Queue{},
		}
		for _, q := range c.Queues {
			// A response may be counted between the two readings.
			x.Queues = append(x.Queues, Queue{int(q.ID), q.Entries, q.Shard, q.Commands - min(q.Answers, q.Commands),
				q.Commands, q.ReadBytes, q.WrittenBytes, q.Copied, q.Slowed})
		}
		out = append(out, x)
	}
	return out
}

// Disconnect ends a host's association; the host may connect again.
func (m *Manager) Disconnect(nqn nvmeof.NQN, id int) error {
	s, err := m.subsystem(nqn)
	if err != nil {
		return err
	}
	var there []string
	for _, c := range m.target.Controllers() {
		if c.Subsystem == nqn {
			there = append(there, fmt.Sprint(c.ID))
		}
	}
	if !slices.Contains(there, fmt.Sprint(id)) {
		return &NotFoundError{"controller", fmt.Sprint(id), there}
	}
	if s.Disconnect(capsule.ControllerID(id)) != nil { // the host has just disconnected
		return &NotFoundError{Kind: "controller", Name: fmt.Sprint(id)}
	}
	return nil
}

// Pause holds the commands of a namespace for at most limit, where 0 means 10 s. Resume ends it.
func (m *Manager) Pause(nqn nvmeof.NQN, nsid int, limit time.Duration) error {
	if limit < 0 || limit > target.MaxPause {
		return config.Problems{{Text: fmt.Sprintf("limit: %v: want more than 0s and at most %v, since hosts abort commands that take longer", limit, target.MaxPause)}}
	}
	n, err := m.find(nqn, nsid)
	if err != nil {
		return err
	}
	return n.Pause(limit)
}

// Resume ends a pause.
func (m *Manager) Resume(nqn nvmeof.NQN, nsid int) error {
	n, err := m.find(nqn, nsid)
	if err != nil {
		return err
	}
	return n.Resume()
}

// ClearFault makes a namespace whose store has failed accept writes again. In a group, another gateway may serve
// it.
func (m *Manager) ClearFault(nqn nvmeof.NQN, nsid int) error {
	if n := sharedNamespace(m, nqn, nsid); n != nil {
		return clearShared(m, nqn, n)
	}
	n, err := m.find(nqn, nsid)
	if err != nil {
		return err
	}
	return n.ClearFault()
}

func (m *Manager) find(nqn nvmeof.NQN, nsid int) (*target.Namespace, error) {
	s, err := m.subsystem(nqn)
	if err != nil {
		return nil, err
	}
	n, err := namespace(s, nsid) // without mu, so that a pause can be ended while a change is being made
	if err == nil {
		return n, nil
	}
	return nil, unserved(m, nqn, nsid)
}

// unserved returns why the target does not have a namespace: it does not exist, it waits, or another target serves
// it.
func unserved(m *Manager, nqn nvmeof.NQN, nsid int) error {
	n, away, err := configured(m, nqn, nsid)
	if err != nil {
		return err
	}
	text := "it is not served at present; try again in a moment"
	if away { // without mu, since a gateway may wait for its group's store
		text = servedElsewhere(m, int(groupOf(n)))
	}
	return &target.StateError{Subsystem: nqn, NSID: capsule.NSID(nsid), Err: errors.New(text)}
}

// configured returns a namespace of the document, and whether another target serves it. If it waits, that is an
// error.
func configured(m *Manager, nqn nvmeof.NQN, nsid int) (n *config.Namespace, away bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waiting[namespaceKey{nqn, nsid}]; w != nil {
		return nil, false, &target.StateError{Subsystem: nqn, NSID: capsule.NSID(nsid), Err: errors.New("it waits for its store: " + w.why)}
	}
	s, err := subsystems(m.doc).find(string(nqn))
	if err != nil {
		return nil, false, err
	}
	n, err = namespaces(s).find(itoa(nsid))
	return n, err == nil && isForeign(m, n), err
}
