package control

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Reservation is the reservation of a namespace, in the form of the API.
type Reservation struct {
	Subsystem   nvmeof.NQN   `json:"subsystem"`
	NSID        int          `json:"nsid"`
	Type        string       `json:"type"` // none: no reservation
	Generation  int          `json:"generation"`
	Persist     bool         `json:"persist"`
	Registrants []Registrant `json:"registrants"`
}

// Registrant is a host that is registered for reservations.
type Registrant struct {
	Host      nvmeof.NQN `json:"host"`
	HostID    string     `json:"host-id"`
	Key       string     `json:"key"` // hexadecimal
	Holds     bool       `json:"holds"`
	Connected bool       `json:"connected"`
}

// reservations returns the namespaces with registered hosts. Namespaces of several subsystems with the same volume
// have the same reservation.
func reservations(m *Manager) []Reservation {
	out := []Reservation{}
	for _, d := range m.present().Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is being removed
		}
		for _, n := range s.Namespaces() {
			r := n.Reservation()
			if len(r.Registrants) == 0 {
				continue
			}
			x := Reservation{d.NQN, int(n.ID()), r.Type.String(), int(r.Generation), r.Persist, []Registrant{}}
			for _, h := range r.Registrants {
				x.Registrants = append(x.Registrants, Registrant{h.NQN, uuid.UUID(h.ID).String(), fmt.Sprintf("%#x", uint64(h.Key)), h.Holds, h.Connected})
			}
			out = append(out, x)
		}
	}
	return out
}

// reserved returns the namespace in the path.
func (c *call) reserved() (*target.Namespace, error) {
	nsid, err := c.number("nsid")
	if err != nil {
		return nil, err
	}
	return c.manager.find(nvmeof.NQN(c.path("nqn")), nsid)
}

// clearReservation removes the reservation and all registrations of a namespace, for hosts that will not do so
// themselves. If one of them is connected, force is needed.
func clearReservation(n *target.Namespace, force bool) error {
	if err := away(n.Reservation().Registrants, force); err != nil {
		return err
	}
	return n.ClearReservation()
}

// unregister removes the registrations of one host, given by its NQN or host identifier, and its reservation. If
// the host is connected, force is needed.
func unregister(n *target.Namespace, host string, force bool) error {
	var theirs []target.Registrant
	var there []string
	id, notID := uuid.Parse(host)
	for _, r := range n.Reservation().Registrants {
		if r.NQN == nvmeof.NQN(host) || notID == nil && r.ID == capsule.HostID(id) {
			theirs = append(theirs, r)
		}
		there = append(there, name(r))
	}
	if len(theirs) == 0 {
		return &NotFoundError{"registrant", host, there}
	}
	if err := away(theirs, force); err != nil {
		return err
	}
	for _, r := range theirs {
		if err := n.Unregister(r.ID); err != nil {
			return err
		}
	}
	return nil
}

// name returns the NQN of a registrant, or else its host identifier.
func name(r target.Registrant) string {
	if r.NQN != "" {
		return string(r.NQN)
	}
	return uuid.UUID(r.ID).String()
}

// A ConnectedError reports that connected hosts would lose their registrations. They may rely on them, since
// nothing else protects their data from other hosts.
type ConnectedError struct{ Hosts []string }

func (e *ConnectedError) Error() string {
	hosts := make([]string, len(e.Hosts))
	for i, h := range e.Hosts {
		hosts[i] = nvmeof.Printable(h)
	}
	return fmt.Sprintf("hosts that are connected and may rely on the reservation: %s; nothing was changed. If this is intended, use --force (with the API ?force=true)",
		strings.Join(hosts, ", "))
}

func away(hosts []target.Registrant, force bool) error {
	var connected []string
	for _, r := range hosts {
		if r.Connected {
			connected = append(connected, name(r))
		}
	}
	if len(connected) == 0 || force {
		return nil
	}
	return &ConnectedError{connected}
}

func reservationRoutes() []route {
	force := []string{"force"}
	return []route{
		{"GET", "/v1/reservations", "listReservations", "List the namespaces with registrants or a reservation", nil, nil, []Reservation{}, false,
			func(c *call) (any, error) { return reservations(c.manager), nil }},
		{"DELETE", "/v1/subsystems/{nqn}/namespaces/{nsid}/reservation", "clearReservation",
			"Clear the reservation and all registrations of a namespace; force is required if hosts are connected", force, nil, done{}, false,
			func(c *call) (any, error) {
				n, err := c.reserved()
				if err != nil {
					return nil, err
				}
				return done{}, clearReservation(n, c.option("force"))
			}},
		{"DELETE", "/v1/subsystems/{nqn}/namespaces/{nsid}/reservation/{host}", "removeRegistrant",
			"Remove the registration and reservation of a host, by NQN or host identifier; force is required while the host is connected", force, nil, done{}, false,
			func(c *call) (any, error) {
				n, err := c.reserved()
				if err != nil {
					return nil, err
				}
				return done{}, unregister(n, c.path("host"), c.option("force"))
			}},
	}
}
