package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// recordEvent records an event. It never blocks, and may be called by any goroutine with any locks held.
func recordEvent(t *Target, k events.Kind, s events.Severity, e events.Event) {
	e.Kind, e.Severity = k, s
	t.log.Events.Record(e)
}

// recordEvent records an event of the listener.
func (l *Listener) recordEvent(s events.Severity, text string) {
	recordEvent(l.target, events.Listener, s, events.Event{Address: l.port.addr.String(), Text: text})
}

// recordEvent records an event of the namespace.
func (n *Namespace) recordEvent(k events.Kind, s events.Severity, text string) {
	recordEvent(n.subsystem.target, k, s, events.Event{Subsystem: string(n.subsystem.nqn), NSID: int(n.ns.ID), Text: text})
}

// recordHostEvent records an event of the controller's host. For discovery controllers it only records refusals: hosts
// connect to them every few seconds.
func recordHostEvent(c *Controller, k events.Kind, s events.Severity, text string) {
	if c.discovery() && k != events.Refused {
		return
	}
	recordEvent(c.target, k, s, events.Event{Subsystem: string(c.subsystem.nqn), Host: string(c.hostNQN), Address: c.admin.remote.String(), Text: text})
}

// recordNamespaceEvent records an action of the controller's host on a namespace.
func recordNamespaceEvent(c *Controller, ns *storage.Namespace, k events.Kind, s events.Severity, text string) {
	recordEvent(c.target, k, s, events.Event{Subsystem: string(c.subsystem.nqn), NSID: int(ns.ID), Host: string(c.hostNQN), Address: c.admin.remote.String(), Text: text})
}

// noteEnd records the end of an association, or that a queue was lost.
func (q *queue) noteEnd(reason string, err error) {
	switch {
	case reason == "" && err != nil:
		recordHostEvent(q.controller, events.Lost, events.Warning, fmt.Sprintf("queue %d lost: %v", q.id, err))
	case q.id != 0:
	case reason == endKeepAlive:
		recordHostEvent(q.controller, events.Lost, events.Warning, "disconnected: "+reason)
	default:
		recordHostEvent(q.controller, events.Disconnect, events.Info, because("disconnected", reason))
	}
}

// because joins an event with its reason, which may be empty.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// reservationActions describes the actions of the three commands (NVMe base 2.0, 7.2, 7.3, 7.4).
var reservationActions = map[capsule.IOOpcode][]string{
	capsule.IOReservationRegister: {"registered", "unregistered", "replaced its key"},
	capsule.IOReservationAcquire:  {"acquired", "preempted", "preempted, and aborted the commands of the preempted hosts"},
	capsule.IOReservationRelease:  {"released", "cleared the reservation and all registrations"},
}

// describeReservation describes the effect of a command: its action, the resulting reservation, and which hosts
// are no longer registered. It leaves out keys.
func describeReservation(cmd *reservation.Command, before, now *reservation.State) string {
	var b strings.Builder
	if names := reservationActions[cmd.Opcode]; int(cmd.Fields.Action) < len(names) {
		b.WriteString(names[cmd.Fields.Action])
	} else {
		b.WriteString(cmd.Opcode.String())
	}
	held := "no reservation"
	if now.Type != 0 {
		held = now.Type.String()
	}
	fmt.Fprintf(&b, "; now %s, %d registered", held, len(now.Registrants))
	for _, r := range before.Registrants {
		if gone := !slices.ContainsFunc(now.Registrants, func(x reservation.Registrant) bool { return x.Host == r.Host }); gone && r.Host != cmd.Host {
			b.WriteString("; no longer registered: " + string(r.NQN))
		}
	}
	return b.String()
}
