package target

import (
	"errors"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A Cause counts an occurrence other than an I/O command, with its reason.
type Cause = meter.Cause

// A CauseKind is the kind of an occurrence.
type CauseKind = meter.Kind

// Kinds of Cause.
const (
	CauseConnect    = meter.Connects
	CauseReject     = meter.Rejects
	CauseDisconnect = meter.Disconnects
	CauseKeepAlive  = meter.KeepAlives
	CauseAdmin      = meter.Admin
	CauseAsyncEvent = meter.AsyncEvents
	CauseAbort      = meter.Aborts
	CauseDiscovery  = meter.Discoveries
	CauseReserve    = meter.Reservations
	CauseANAChange  = meter.ANAChanges
)

// countConnect counts a Connect command.
func (t *Target) countConnect(no refusal) {
	cause := "ok"
	switch no.status.Code() {
	case capsule.StatusSuccess:
	case capsule.StatusConnectInvalidHost:
		cause = "host_not_allowed"
	case capsule.StatusConnectControllerBusy:
		cause = "busy"
	case capsule.StatusConnectIncompatibleFormat:
		cause = "format"
	default:
		switch {
		case no.decided:
			cause = "subsystem"
		case no.status.DNR():
			cause = "malformed"
		default:
			cause = "conflict"
		}
	}
	t.causes.Count(meter.Connects, "", cause, "")
}

// Reasons for which the target ends a queue, as they are logged.
const (
	endDisconnect     = "Disconnect command"
	endReset          = "controller reset"
	endShutdown       = "controller shutdown"
	endSilent         = "no Connect command"
	endKeepAlive      = "keep alive timeout"
	endAdminQueue     = "admin queue is gone"
	endTarget         = "target is shutting down"
	endReplaced       = "replaced by another controller"
	endReconnected    = "replaced by a new connection of the same queue"
	endUnacknowledged = "the host does not acknowledge the data of a Read"
	endUndelivered    = "the host does not deliver the data of a command"
)

// endings maps the reasons of disconnects to their labels; others were caused by the administrator.
var endings = map[string]string{
	"":                "host",
	endDisconnect:     "host",
	endReset:          "host",
	endShutdown:       "host",
	endSilent:         "silent",
	endKeepAlive:      "keepalive",
	endAdminQueue:     "association",
	endTarget:         "shutdown",
	endReplaced:       "replaced",
	endReconnected:    "replaced",
	endUnacknowledged: "undelivered",
	endUndelivered:    "undelivered",
}

// countEnd counts the end of a queue.
func (q *queue) countEnd(err error) {
	cause, known := endings[q.why]
	switch {
	case !known:
		cause = "admin"
	case q.why != "" || isDisconnect(err):
	case errors.Is(err, fabric.ErrUndelivered):
		cause = "undelivered"
	case errors.Is(err, fabric.ErrProtocol), errors.Is(err, fabric.ErrShortCapsule):
		cause = "protocol"
	default:
		cause = "lost"
	}
	kind := "io"
	if q.id == 0 {
		kind = "admin"
	}
	q.target.causes.Count(meter.Disconnects, "", cause, kind)
}

// countAdmin counts a completed admin or fabrics command.
func (q *queue) countAdmin(r *request, s capsule.Status) {
	name := "unknown"
	switch o := capsule.AdminOpcode(r.cmd.Opcode); {
	case r.cmd.Opcode == capsule.OpcodeFabrics && r.cmd.FabricsType().Known():
		name = r.cmd.FabricsType().String()
	case r.cmd.Opcode != capsule.OpcodeFabrics && q.id == 0 && o.Known():
		name = o.String()
	}
	result := "ok"
	if !s.OK() {
		result = statusLabel(s)
	}
	q.target.causes.Count(meter.Admin, "", label(name), result)
	if q.id == 0 && r.cmd.Opcode == capsule.Opcode(capsule.AdminGetLogPage) && r.cmd.GetLogPage().LID == capsule.LogDiscovery {
		q.target.causes.Count(meter.Discoveries, "", result, "")
	}
}

// reservationLabels are the labels of commands that change reservations, by their action (NVMe base 2.0, 7.2, 7.3,
// 7.4).
var reservationLabels = map[capsule.IOOpcode][]string{
	capsule.IOReservationRegister: {"register", "unregister", "replace"},
	capsule.IOReservationAcquire:  {"acquire", "preempt", "preempt_abort"},
	capsule.IOReservationRelease:  {"release", "clear"},
}

// countReservation counts a command that changes a reservation, or failed to.
func countReservation(t *Target, cmd *reservation.Command, s capsule.Status) {
	action, result := "invalid", "ok"
	if names := reservationLabels[cmd.Opcode]; int(cmd.Fields.Action) < len(names) {
		action = names[cmd.Fields.Action]
	}
	if !s.OK() {
		result = statusLabel(s)
	}
	t.causes.Count(meter.Reservations, "", action, result)
}

// statusLabel returns a status as a label: the status code type and the status code, as in 0_02.
func statusLabel(s capsule.Status) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[s.SCT()], '_', digits[s.SC()>>4], digits[s.SC()&15]})
}

// label returns a name of the specification as a label.
func label(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "_") }
