package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// reservationNotice adds a page, unless the host masks the notice.
func (c *Controller) reservationNotice(id capsule.NSID, what capsule.ReservationNotice) {
	if c.notices.Add(id, what) {
		c.raise(state.EventReservation)
	}
}

// reservationLog returns the oldest page, or an empty one.
func (c *Controller) reservationLog(capsule.GetLogPage) []byte {
	b := make([]byte, capsule.ReservationLogSize)
	c.notices.Encode(b)
	return b
}

// reservationLogRead removes the page that was read. The next one raises the event again.
func (c *Controller) reservationLogRead() {
	if c.notices.Read() {
		c.events.Raise(state.EventReservation)
	}
}

// eachNamespace calls f with the namespace of a feature command, or with all namespaces.
func (c *Controller) eachNamespace(r *request, f func(*storage.Namespace)) capsule.Status {
	if r.cmd.NSID == capsule.NSIDBroadcast {
		r.chargeAll(lookCost)
		for ns := range c.view.All {
			f(ns)
		}
		return capsule.StatusSuccess
	}
	ns, status := c.view.Have(r.cmd.NSID)
	if ns == nil {
		return status
	}
	f(ns)
	return capsule.StatusSuccess
}

// oneNamespace refuses the broadcast identifier, for which there is no single value.
func (c *Controller) oneNamespace(r *request, f func(*storage.Namespace)) capsule.Status {
	if r.cmd.NSID == capsule.NSIDBroadcast {
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	return c.eachNamespace(r, f)
}

func getReservationMask(c *Controller, r *request, _ uint32) capsule.Status {
	return c.oneNamespace(r, func(ns *storage.Namespace) { r.result = uint64(c.notices.Mask(ns.ID)) })
}

func setReservationMask(c *Controller, r *request, v uint32) capsule.Status {
	if v&^capsule.ReservationMaskAll != 0 {
		return r.invalid(11, 0)
	}
	return c.eachNamespace(r, func(ns *storage.Namespace) { c.notices.SetMask(ns.ID, v) })
}

func getReservationPersist(c *Controller, r *request, _ uint32) capsule.Status {
	var v *storage.Reservations
	if status := c.oneNamespace(r, func(ns *storage.Namespace) { v = ns.Volume.Reservations }); !status.OK() {
		return status
	}
	r.confirmed(v, func(s *reservation.State) {
		if s.Persist {
			r.result = 1
		}
		r.finish(capsule.StatusSuccess)
	})
	return statusLater
}

// setReservationPersist fails if the namespace has no store for it, and for hosts that may not write. With the
// broadcast identifier it skips such namespaces.
func setReservationPersist(c *Controller, r *request, v uint32) capsule.Status {
	on := v&1 != 0
	var all []*storage.Reservations
	refused := capsule.StatusSuccess
	status := c.eachNamespace(r, func(ns *storage.Namespace) {
		switch {
		case c.view.Rights.Load().To(ns.ID) != AccessWrite:
			refused = capsule.StatusAccessDenied | capsule.StatusDNR
		case on && !(ns.Reservable() && ns.Volume.Reservations.Persists()):
			refused = r.invalid(11, 0)
		default:
			all = append(all, ns.Volume.Reservations)
		}
	})
	switch {
	case !status.OK():
		return status
	case !refused.OK() && r.cmd.NSID != capsule.NSIDBroadcast:
		return refused
	}
	what := any(c.subsystem)
	if len(all) == 1 {
		what = all[0]
	}
	r.outside(what, func() func() {
		status := capsule.StatusSuccess
		for _, v := range all {
			if v.SetPersist(on) != nil {
				status = v.Failure()
			}
		}
		return func() { r.finish(status) }
	})
	return statusLater
}
