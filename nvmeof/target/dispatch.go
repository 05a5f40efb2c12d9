package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/command"
)

// A handler executes an admin or fabrics command whose data, in r.data, is
// complete and exactly as long as the row's rule says. Data for the host is
// zero before it. It answers with the status it returns, or later if that is
// statusLater. c is nil before Connect.
type handler func(c *Controller, r *command.Request) capsule.Status

// statusLater says that the handler keeps the request.
const statusLater capsule.Status = 0xffff

// A sizeRule is how many bytes of data a command must come with.
type sizeRule func(c *Controller, cmd *capsule.Command) uint64

// A row is one admin opcode or fabrics type.
type row struct {
	run  handler
	size sizeRule // nil: no data
	// check judges the command's fields before its data is moved; nil: nothing to judge.
	check func(q *queue, r *command.Request) capsule.Status
	io    bool // I/O controllers execute it
	disc  bool // discovery controllers execute it
}

func fixed(n uint64) sizeRule {
	return func(*Controller, *capsule.Command) uint64 { return n }
}

func adminTable() [256]row {
	return [256]row{
		capsule.AdminGetLogPage:  {run: getLogPage, size: logSize, io: true, disc: true},
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

// queueOf is the queue of a request.
func queueOf(r *command.Request) *queue { return r.Queue.Owner.(*queue) }

// Begin implements [command.Owner].
func (q *queue) Begin(r *command.Request) {
	if !q.traffic.Load() {
		q.traffic.Store(true)
	}
	c := q.controller
	switch {
	case q.leaving != nil || q.parting:
		r.Finish(capsule.StatusSQDeleted)
	case q.auth.locked && !beforeAuth(r.Cmd):
		q.refuseLocked(r)
	case r.Cmd.Flags.Fuse() != capsule.FuseNone || q.Halfway():
		q.Fuse(r)
	case !r.Link.Wrong().OK():
		r.FinishWrong()
	case r.Cmd.Opcode == capsule.OpcodeFabrics:
		q.startRow(r, &q.target.fabrics[r.Cmd.FabricsType()])
	case c == nil:
		r.Finish(capsule.StatusCommandSequence | capsule.StatusDNR)
	case q.id != 0:
		q.StartIO(r)
	default:
		q.startAdmin(r)
	}
}

func (q *queue) startAdmin(r *command.Request) {
	c, row := q.controller, &q.target.admin[r.Cmd.Opcode]
	if row.run == nil || c.discovery() && !row.disc || !c.discovery() && !row.io {
		r.Finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	}
	// NVMe base 2.0, 3.5.4: before CSTS.RDY only fabrics commands are executed.
	if !c.props.Accepting() {
		r.Finish(capsule.StatusCommandSequence | capsule.StatusDNR)
		return
	}
	q.startRow(r, row)
}

// startRow judges the length of the data and sees to it that it is there.
func (q *queue) startRow(r *command.Request, row *row) {
	c := q.controller
	connecting := r.Cmd.Opcode == capsule.OpcodeFabrics && r.Cmd.FabricsType() == capsule.FabricsConnect
	switch {
	case row.run == nil:
		r.Finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	case connecting == (c != nil):
		// Connect comes first and once (NVMe base 2.0, 6.3).
		r.Finish(capsule.StatusCommandSequence | capsule.StatusDNR)
		return
	}
	if row.check != nil {
		if status := row.check(q, r); !status.OK() {
			r.Finish(status)
			return
		}
	}
	var want uint64
	if row.size != nil {
		want = row.size(c, r.Cmd)
	}
	if uint64(r.Link.Length()) != want {
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	perform := func(r *command.Request) { q.perform(r, row) }
	if want == 0 {
		r.PerformNow(perform)
		return
	}
	r.Await(perform)
}

// perform calls the handler of an admin or fabrics command.
func (q *queue) perform(r *command.Request, row *row) {
	toHost := r.ClearForHost()
	status := row.run(q.controller, r)
	switch {
	case status == statusLater:
		r.Keep()
	case status.OK() && toHost:
		r.FinishBuffer()
	default:
		r.Finish(status)
	}
	if q.id == 0 && q.controller != nil {
		q.controller.report()
	}
}
