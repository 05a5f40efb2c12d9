package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
)

// A handler executes an admin or fabrics command. The command's data is complete in r.data, and has the length
// that the row requires. The buffer of data for the host is zeroed before the call. The command completes with the
// returned status, or later if that is statusLater. c is nil before Connect.
type handler func(c *Controller, r *request) capsule.Status

// statusLater means that the handler keeps the request and completes it later.
const statusLater capsule.Status = 0xffff

// statusAgain means that the request waits for a larger buffer, with which the handler is called again, perhaps
// already before it returns.
const statusAgain capsule.Status = 0xfffe

// A sizeRule returns the length of a command's data in bytes.
type sizeRule func(c *Controller, cmd *capsule.Command) uint64

// A row describes one admin opcode or fabrics command type.
type row struct {
	run  handler
	size sizeRule // nil: no data
	// holds returns how many bytes at the beginning of data for the host may be nonzero, and so need a buffer;
	// nil: all.
	holds func(c *Controller, cmd *capsule.Command) uint64
	// check checks the command's fields before its data is transferred; nil: no check.
	check func(q *queue, r *request) capsule.Status
	io    bool // I/O controllers execute it
	disc  bool // discovery controllers execute it
}

func fixed(n uint64) sizeRule {
	return func(*Controller, *capsule.Command) uint64 { return n }
}

func adminTable() [256]row {
	return [256]row{
		capsule.AdminGetLogPage:  {run: getLogPage, size: logSize, holds: logHolds, io: true, disc: true},
		capsule.AdminIdentify:    {run: identify, size: fixed(capsule.IdentifySize), io: true, disc: true},
		capsule.AdminAbort:       {run: abort, io: true},
		capsule.AdminSetFeatures: {run: setFeatures, check: knownFeature, size: featureSize, io: true, disc: true},
		capsule.AdminGetFeatures: {run: getFeatures, check: knownFeature, size: featureSize, io: true, disc: true},
		capsule.AdminAsyncEvent:  {run: asyncEvent, io: true, disc: true},
		capsule.AdminKeepAlive:   {run: keepAliveCommand, io: true, disc: true},
	}
}

func fabricsTable() [256]row {
	return [256]row{
		capsule.FabricsPropertySet: {run: propertySet},
		capsule.FabricsConnect:     {run: connect, size: fixed(capsule.ConnectDataSize)},
		capsule.FabricsPropertyGet: {run: propertyGet},
		capsule.FabricsDisconnect:  {run: disconnect},
		capsule.FabricsAuthSend:    {run: authSend, size: authLength, check: checkAuth},
		capsule.FabricsAuthReceive: {run: authReceive, size: authLength, check: checkAuth},
	}
}

func logSize(_ *Controller, cmd *capsule.Command) uint64 { return cmd.GetLogPage().Length }

// begin begins a command, which may be one half of a fused operation.
func (q *queue) begin(r *request) {
	if !q.traffic.Load() {
		q.traffic.Store(true)
	}
	c := q.controller
	switch {
	case q.leaving != nil || q.parting:
		r.finish(capsule.StatusSQDeleted)
	case q.auth.locked && !beforeAuth(r.cmd):
		q.refuseLocked(r)
	case r.cmd.Flags.Fuse() != capsule.FuseNone || q.halfway():
		q.fuse(r)
	case r.link.Wrong() != capsule.StatusSuccess:
		r.finishWrong()
	case r.cmd.Opcode == capsule.OpcodeFabrics:
		q.startRow(r, &q.target.fabrics[r.cmd.FabricsType()])
	case c == nil:
		r.finish(capsule.StatusCommandSequence | capsule.StatusDNR)
	case q.id != 0:
		q.startIO(r)
	default:
		q.startAdmin(r)
	}
}

func (q *queue) startAdmin(r *request) {
	if q.expired(r) {
		return
	}
	c, row := q.controller, &q.target.admin[r.cmd.Opcode]
	if row.run == nil || c.discovery() && !row.disc || !c.discovery() && !row.io {
		r.finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	}
	// NVMe base 2.0, 3.5.4: before CSTS.RDY only fabrics commands are executed.
	if !c.props.Accepting() {
		r.finish(capsule.StatusCommandSequence | capsule.StatusDNR)
		return
	}
	q.startRow(r, row)
}

// startRow checks the length of the data and fetches it, or gets a buffer for it.
func (q *queue) startRow(r *request, row *row) {
	c := q.controller
	connecting := r.cmd.Opcode == capsule.OpcodeFabrics && r.cmd.FabricsType() == capsule.FabricsConnect
	switch {
	case row.run == nil:
		r.finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	case connecting == (c != nil):
		// Connect comes first and once (NVMe base 2.0, 6.3).
		r.finish(capsule.StatusCommandSequence | capsule.StatusDNR)
		return
	}
	if row.check != nil {
		if status := row.check(q, r); !status.OK() {
			r.finish(status)
			return
		}
	}
	var want uint64
	if row.size != nil {
		want = row.size(c, r.cmd)
	}
	if uint64(r.link.Length()) != want {
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	perform := func(r *request) { q.perform(r, row) }
	if want == 0 {
		r.performNow(perform)
		return
	}
	if row.holds != nil {
		want = min(want, row.holds(c, r.cmd))
	}
	r.await(perform, int(want))
}

// perform calls the handler of an admin or fabrics command.
func (q *queue) perform(r *request, row *row) {
	toHost := r.clearForHost()
	status := row.run(q.controller, r)
	switch {
	case status == statusLater:
		r.keep()
	case status == statusAgain:
		return
	case status.OK() && toHost:
		r.finishBuffer()
	default:
		r.finish(status)
	}
	if q.id == 0 && q.controller != nil {
		q.controller.report()
	}
}
