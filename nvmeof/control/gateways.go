package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Gateways decides which gateway of a group serves what.
type Gateways interface {
	Status() GroupStatus // has no gateways while nothing is known yet
	// Order returns when the group has accepted or refused the order.
	Order(context.Context, Order) error
}

// An Order is an administrator's request to a group.
type Order struct {
	Kind    OrderKind
	Gateway string // gateway that it applies to; for MoveGroup the new owner
	Group   int    // for MoveGroup
}

// An OrderKind is the kind of an order.
type OrderKind int

// Kinds of orders.
const (
	DrainGateway  OrderKind = iota // the gateway serves nothing until ResumeGateway
	ResumeGateway                  // the gateway may serve again
	RemoveGateway                  // a gateway that has ended is forgotten
	FailGateway                    // the gateway is fenced, and others serve its groups
	MoveGroup                      // the gateway becomes the owner of an ANA group
)

// An OrderError reports that the group did not accept an order in time. It may still be carried out.
type OrderError struct{ Err error }

func (e *OrderError) Error() string { return "the group: " + e.Err.Error() }

func (e *OrderError) Unwrap() error { return e.Err }

// GroupStatus is the state of a group as a gateway sees it.
type GroupStatus struct {
	Store    string        `json:"store"`
	Gateway  string        `json:"gateway"`          // gateway that was asked
	Revision int64         `json:"revision"`         // revision of the configuration that it has
	Behind   string        `json:"behind,omitempty"` // why it differs from that; empty: it does not
	Age      int           `json:"age-ms"`           // milliseconds since the following was read from the store
	Gateways []Member      `json:"gateways"`
	Groups   []ANAStatus   `json:"ana-groups"`
	Fences   []FenceStatus `json:"fences"`
	Alarms   []GroupAlarm  `json:"alarms"`
}

// A Member is a gateway of a group.
type Member struct {
	Name        string   `json:"name"`
	Incarnation string   `json:"incarnation,omitempty"`
	State       string   `json:"state"`               // alive, starting, drained, leaving, sick, silent, unknown or ended
	Addresses   []string `json:"addresses,omitempty"` // addresses at which hosts connect
	Storage     []string `json:"storage,omitempty"`   // storage clients of the gateway, by which it is fenced
	Groups      int      `json:"ana-groups"`          // number of groups that it serves
	FirstID     int      `json:"first-controller-id,omitempty"`
	LastID      int      `json:"last-controller-id,omitempty"`
}

// ANAStatus is the state of an ANA group.
type ANAStatus struct {
	Group  int          `json:"group"`
	Owner  string       `json:"owner,omitempty"` // empty: none
	Epoch  uint64       `json:"epoch"`
	Moving string       `json:"moving-to,omitempty"`
	Fence  config.Fence `json:"fence,omitempty"`
	Served bool         `json:"served"` // by the gateway that was asked
}

// FenceStatus is a gateway that is fenced.
type FenceStatus struct {
	Gateway     string   `json:"gateway"`
	Incarnation string   `json:"incarnation"`
	Storage     []string `json:"storage,omitempty"`
	Done        bool     `json:"done"` // the storage refuses its clients
}

// GroupAlarm is a condition that an administrator has to resolve.
type GroupAlarm struct {
	Kind    string `json:"kind"`
	Gateway string `json:"gateway,omitempty"`
	Group   int    `json:"ana-group,omitempty"`
	Text    string `json:"text"`
}

// errAlone is the error of a target without a group.
var errAlone = errors.New("the target is not in a group of gateways: see nvmeof target --group")

// errUnheard is the error of a gateway that has no status of the group yet.
var errUnheard = errors.New("this gateway does not know the state of its group yet: it is starting or stopping, or the group's store or its storage does not answer (see its log); try again in a moment, or ask another gateway")

// group returns the status of the group of which the target is a gateway.
func group(m *Manager) (GroupStatus, error) {
	if m.cfg.Gateways == nil {
		return GroupStatus{}, errAlone
	}
	s := m.cfg.Gateways.Status()
	if len(s.Gateways) == 0 && len(s.Alarms) == 0 {
		return GroupStatus{}, errUnheard
	}
	s.Store = m.cfg.Settings.Group.Store
	revision, behind := Revision(m)
	if s.Revision = revision; behind != nil {
		s.Behind = behind.Error()
	}
	return s, nil
}

// unheardLimit is how long a request for the status of a group waits if the gateway does not know it yet, as just
// after its start.
const unheardLimit = 3 * time.Second

// heardGroup is group, but waits if the gateway does not know the status yet.
func heardGroup(c *call) (any, error) {
	const every = 50 * time.Millisecond
	for deadline := time.Now().Add(unheardLimit); ; {
		s, err := group(c.manager)
		if !errors.Is(err, errUnheard) || time.Now().After(deadline) {
			return s, err
		}
		select {
		case <-c.context.Done():
			return s, err
		case <-time.After(every):
		}
	}
}

// servedElsewhere returns a text that says which gateway serves an ANA group, if that is known.
func servedElsewhere(m *Manager, id int) string {
	const where = "its ANA group is %d, which nvmeof ana-group owners shows"
	if m.cfg.Gateways == nil {
		return fmt.Sprintf("another target serves it: its ANA group is %d", id)
	}
	s := m.cfg.Gateways.Status()
	i := slices.IndexFunc(s.Groups, func(g ANAStatus) bool { return g.Group == id })
	switch {
	case i < 0:
		return fmt.Sprintf("another gateway serves it: "+where, id)
	case s.Groups[i].Owner == "":
		return fmt.Sprintf("no gateway serves it at present: "+where, id)
	case s.Groups[i].Owner == s.Gateway:
		return fmt.Sprintf("this gateway is about to serve it, or to release it: "+where, id)
	}
	return fmt.Sprintf("gateway %s serves it: run the command there; "+where, s.Groups[i].Owner, id)
}

// order gives an order about the gateway in the path.
func (c *call) order(kind OrderKind) (any, error) {
	if c.manager.cfg.Gateways == nil {
		return nil, errAlone
	}
	return done{}, c.manager.cfg.Gateways.Order(c.context, Order{Kind: kind, Gateway: c.path("gateway")})
}

// moveTo is the body of a request to move a group.
type moveTo struct {
	Gateway string `json:"gateway" need:"yes" max:"64" doc:"Name of the gateway that is to serve the group."`
}

// groupRoutes returns the routes for gateways.
func groupRoutes() []route {
	orderOf := func(kind OrderKind) func(*call) (any, error) {
		return func(c *call) (any, error) { return c.order(kind) }
	}
	return []route{
		{"GET", "/v1/group", "getGroup", "Get the state of the target's group of gateways, and the owners of its ANA groups", nil, nil, GroupStatus{}, false,
			heardGroup},
		{"POST", "/v1/gateways/{gateway}/drain", "drainGateway", "Move all ANA groups of a gateway to others, until it is resumed", nil, nil, done{}, false, orderOf(DrainGateway)},
		{"POST", "/v1/gateways/{gateway}/resume", "resumeGateway", "Let a drained gateway serve again", nil, nil, done{}, false, orderOf(ResumeGateway)},
		{"POST", "/v1/gateways/{gateway}/fail", "failGateway", "Fence a gateway, even if it is running, and move its ANA groups to others", nil, nil, done{}, false, orderOf(FailGateway)},
		{"DELETE", "/v1/gateways/{gateway}", "removeGateway", "Remove a gateway that has ended from the group", nil, nil, done{}, false, orderOf(RemoveGateway)},
		{"PUT", "/v1/group/ana-groups/{group}/gateway", "moveANAGroup", "Move an ANA group to a gateway", nil, moveTo{}, done{}, false,
			func(c *call) (any, error) {
				id, err := c.number("group")
				if err != nil {
					return nil, err
				}
				to := new(moveTo)
				if err := config.ParsePart("", c.body, to); err != nil {
					return nil, err
				}
				if c.manager.cfg.Gateways == nil {
					return nil, errAlone
				}
				return done{}, c.manager.cfg.Gateways.Order(c.context, Order{MoveGroup, to.Gateway, id})
			}},
	}
}
