package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// eventReservation marks the reservation event, which every host hears of and none
// can turn off by AEC: the bit has no meaning there.
const eventReservation uint32 = 1 << 30

// maxReservationLogs is how many notices wait for the host; more are counted.
const maxReservationLogs = 255

// reservationLogs are a controller's Reservation Notification log pages and the
// masks of its namespaces (NVMe base 2.0, 5.16.1.24 and 5.27.1.27). They belong to
// the controller's shard.
type reservationLogs struct {
	pages []capsule.ReservationLog // oldest first
	count uint64
	masks map[capsule.NSID]uint32
}

// reservationNotice adds a page, unless the host does not want it.
func (c *Controller) reservationNotice(id capsule.NSID, what capsule.ReservationNotice) {
	l := &c.notices
	if l.masks[id]>>what&1 != 0 {
		return
	}
	if l.count++; l.count == 0 {
		l.count = 1 // 0 stands for no page
	}
	if len(l.pages) == maxReservationLogs {
		return
	}
	l.pages = append(l.pages, capsule.ReservationLog{Count: l.count, Notice: what, NSID: id})
	c.raise(eventReservation)
}

// reservationLog is the oldest page, or an empty one.
func (c *Controller) reservationLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.ReservationLogSize)
	if pages := c.notices.pages; len(pages) > 0 {
		page := pages[0]
		page.Available = uint8(len(pages) - 1)
		page.Encode(b)
	}
	return b
}

// reservationLogRead drops the page that was read. The next one is an event again.
func (c *Controller) reservationLogRead() {
	l := &c.notices
	if len(l.pages) == 0 {
		return
	}
	if l.pages = l.pages[1:]; len(l.pages) > 0 {
		c.events.raise(eventReservation)
	}
}

// eachNamespace calls f with the namespace that a feature is of, or with all.
func (c *Controller) eachNamespace(id capsule.NSID, f func(*Namespace)) capsule.Status {
	if id == capsule.NSIDBroadcast {
		for _, ns := range c.namespaces() {
			f(ns)
		}
		return capsule.StatusSuccess
	}
	ns, status := c.lookup(id)
	switch {
	case !status.OK():
		return status
	case ns == nil:
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	f(ns)
	return capsule.StatusSuccess
}

// oneNamespace refuses the broadcast identifier, under which there is no one value.
func (c *Controller) oneNamespace(id capsule.NSID, f func(*Namespace)) capsule.Status {
	if id == capsule.NSIDBroadcast {
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	return c.eachNamespace(id, f)
}

func getReservationMask(c *Controller, r *request, _ uint32) capsule.Status {
	return c.oneNamespace(r.cmd.NSID, func(ns *Namespace) { r.result = uint64(c.notices.masks[ns.id]) })
}

func setReservationMask(c *Controller, r *request, v uint32) capsule.Status {
	if v&^capsule.ReservationMaskAll != 0 {
		return invalidField
	}
	l := &c.notices
	if l.masks == nil {
		l.masks = make(map[capsule.NSID]uint32)
	}
	return c.eachNamespace(r.cmd.NSID, func(ns *Namespace) { l.masks[ns.id] = v })
}

func getReservationPersist(c *Controller, r *request, _ uint32) capsule.Status {
	return c.oneNamespace(r.cmd.NSID, func(ns *Namespace) {
		if ns.reservations.state.Load().Persist {
			r.result = 1
		}
	})
}

// setReservationPersist is refused where nothing can survive.
func setReservationPersist(c *Controller, r *request, v uint32) capsule.Status {
	on := v&1 != 0
	var all []*reservations
	status := c.eachNamespace(r.cmd.NSID, func(ns *Namespace) {
		if ns.reservations.store != nil || !on {
			all = append(all, ns.reservations)
		} else if r.cmd.NSID != capsule.NSIDBroadcast {
			all = append(all, nil)
		}
	})
	switch {
	case !status.OK():
		return status
	case len(all) == 1 && all[0] == nil:
		return invalidField
	}
	r.outside(func() func() {
		status := capsule.StatusSuccess
		for _, v := range all {
			out, err := v.change(func(s reservation.State) (reservation.State, reservation.Outcome) {
				s.Persist = on
				return s, reservation.Outcome{}
			})
			if err != nil {
				status = out.Status
			}
		}
		return func() { r.finish(status) }
	})
	return statusLater
}
