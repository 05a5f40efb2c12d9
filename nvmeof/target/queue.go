package target

import (
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A wire is the part of a connection that a queue uses: the [fabric.TargetQueue].
type wire interface {
	SetEntries(n int)
	SetParty(p *fabric.Party, admitted bool)
	DisableFlowControl()
	Probe()
	Disconnect()
}

// A queue is one connection: after Connect, an admin queue or I/O queue of a controller. It belongs to a worker's
// shard.
type queue struct {
	target   *Target
	worker   *worker
	shard    *shard.Shard // the worker's
	wire     wire
	id       capsule.QID
	entries  uint32 // HSQSIZE + 1 of the connection request
	listener *Listener
	local    netip.AddrPort
	remote   netip.AddrPort
	qpn      rdmatransport.QPN

	controller *Controller // nil before Connect
	leaving    *request    // an accepted Disconnect command; the queue ends when it is done
	why        string      // the reason for a disconnect by the target; empty if the host disconnected
	failed     bool
	parted     bool        // the host disconnected first
	parting    bool        // no command is executed any more: the host is about to disconnect
	refused    bool        // the connection request was refused
	timer      shard.Timer // limits the time until Connect
	waiter     *waiter     // its entry in the target's waiting, which owns it
	proven     bool        // no longer waiting for its host to be admitted
	gaveWay    bool        // ended in favour of a newer connection
	moved      bool        // another process continues it
	auth       authentication
	mapping    mapping // belongs to Target.memory
	onClosed   func()  // frees the resources of the connection

	origin *party       // party of the peer's address
	host   *party       // party of the host once it is admitted, else nil
	share  *shard.Share // from which commands get their buffers

	requests     []request
	first        *request              // a fused first half whose second half has not arrived
	unidentified []unidentifiedCommand // commands for namespaces that the host has not identified yet, in order
	look         shard.Timer
	pieces       [2]rdmatransport.SGE
	counts       queueCounts
	written      state.Written // of an I/O queue

	// traffic is set by every command and cleared by the controller's keep alive.
	traffic atomic.Bool
}

// newQueue returns a queue of a listener. It has received no command yet.
func (t *Target) newQueue(w *worker, l *Listener, id capsule.QID, entries uint32) *queue {
	return &queue{target: t, worker: w, shard: w.shard, listener: l, id: id, entries: entries}
}

// start prepares the queue for n concurrent requests.
func (q *queue) start(n int) {
	q.requests = make([]request, n)
	for i := range q.requests {
		q.requests[i].init(q)
	}
	q.origin = q.worker.join(partyName{addr: originOf(q.remote.Addr())})
	q.share = &q.origin.public
	q.wire.SetParty(&q.origin.fabric, false)
	q.look.Func = q.lookAgain
	q.timer.Func = func() { q.refuseSilent() }
	q.shard.SetTimer(&q.timer, q.target.cfg.ConnectTimeout)
}

// heard ends the connection's wait for admission: its host is admitted.
func (q *queue) heard() {
	if q.id != 0 && !placeQueue(q.controller, q) {
		q.disconnect("queue identifier is in use, or its controller is not enabled any more")
		return
	}
	q.proven = true
	q.admitted()
	if !q.controller.discovery() {
		q.target.memory.admit(&q.mapping)
	}
	q.target.waiting.prove(q, !q.controller.discovery())
}

// refuseSilent drops a connection on which no Connect command has arrived.
func (q *queue) refuseSilent() {
	if q.controller == nil {
		q.target.waiting.silent.Add(1)
		q.target.log.Trouble("connection dropped: no Connect command was received",
			zap.Stringer("peer", q.remote), zap.Duration("within", q.target.cfg.ConnectTimeout))
		q.disconnect(endSilent)
	}
}

// Command implements [fabric.Handler].
func (q *queue) Command(c *fabric.Command) { q.take(c, &c.SQE, int(c.Index)) }

// take begins a command in the request with the given index.
func (q *queue) take(l link, cmd *capsule.Command, index int) {
	r := &q.requests[index]
	q.counts.commands++
	r.begin(l, cmd)
	q.begin(r)
}

// Reused implements [fabric.Handler]. SPDK hosts that detach reuse the identifiers of Asynchronous Event Requests
// that they no longer wait for.
func (q *queue) Reused(c *fabric.Command) bool {
	if q.controller == nil || q.id != 0 {
		return false
	}
	_, held := q.controller.events.Take(c.SQE.CID)
	return held
}

// Fetched implements [fabric.Handler].
func (q *queue) Fetched(c *fabric.Command) {
	r := &q.requests[c.Index]
	r.fetched()
	r.ready()
}

// Slow implements [fabric.Handler].
func (q *queue) Slow() {
	q.counts.slowed++
	q.target.slowed.Add(1)
	q.target.log.Trouble("queue may have less write data under way: other commands waited for data that its host did not deliver",
		zap.String("host", string(q.controller.hostNQN)), zap.String("subsystem", string(q.controller.subsystem.nqn)),
		zap.Uint16("qid", uint16(q.id)), zap.Stringer("peer", q.remote))
}

// Done implements [fabric.Handler].
func (q *queue) Done(c *fabric.Command) { q.finished(int(c.Index)) }

// finished ends a request. The queue ends after the response to Disconnect or to failed authentication.
func (q *queue) finished(index int) {
	r := &q.requests[index]
	orderly := q.leaving == r
	refused := q.auth.last == r
	r.done()
	if orderly {
		q.disconnect(endDisconnect)
	}
	if refused && !q.failed {
		q.shard.SetTimer(&q.auth.timer, farewellTime)
	}
}

// Failed implements [fabric.Handler]. No request may wait for the connection any more. Those that a backend has
// complete by themselves.
func (q *queue) Failed(err error) {
	if errors.Is(err, fabric.ErrUndelivered) {
		q.target.undelivered.Add(1)
	}
	q.failed, q.parted = true, q.why == "" && isDisconnect(err)
	q.shard.StopTimer(&q.timer)
	q.authEnded()
	if q.moved = errors.Is(err, fabric.ErrMoved); !q.moved {
		q.countEnd(err)
		q.logEnd(err)
	}
	q.endRequests()
	if q.controller != nil && q.id == 0 {
		if !isDisconnect(err) && !q.moved {
			q.controller.presence.lost()
		}
		q.controller.abortEvents()
		q.controller.flushing.forgo()
	}
}

// Closed implements [fabric.Handler]: nothing is in flight any more.
func (q *queue) Closed() {
	if q.controller != nil {
		q.controller.leaveQueue(q)
	}
	q.leaveParties()
	if q.onClosed != nil {
		q.onClosed()
	}
}

// disconnect ends the connection. Called in the queue's shard, possibly more than once.
func (q *queue) disconnect(why string) {
	if q.refused {
		return
	}
	if q.why == "" {
		q.why = why
	}
	q.wire.Disconnect()
}

// part ends the commands, and after a short time the connection, if the host has not disconnected.
func (q *queue) part() {
	if q.failed || q.parting {
		return
	}
	q.parting = true
	q.timer.Func = func() { q.disconnect(endAdminQueue) }
	q.shard.SetTimer(&q.timer, farewellTime)
	q.endRequests()
}

// logEnd logs the end of an association once, and each queue that was lost other than by a disconnect.
func (q *queue) logEnd(err error) {
	c := q.controller
	if c == nil {
		return
	}
	reason := q.why
	if reason == "" && isDisconnect(err) {
		reason = "host disconnected"
	}
	fields := []zap.Field{zap.Uint16("qid", uint16(q.id)), zap.Stringer("peer", q.remote)}
	q.noteEnd(reason, err)
	switch {
	case reason == "":
		if remedy := lossRemedy(err); remedy != "" {
			fields = append(fields, zap.String("remedy", remedy))
		}
		q.target.log.Trouble("queue lost", append(fields, zap.String("host", string(c.hostNQN)),
			zap.String("subsystem", string(c.subsystem.nqn)), zap.Error(err))...)
	case q.id == 0 && !c.dismissed:
		q.target.log.Comings.Write(c.log.Info, "association ended", append(fields, zap.String("reason", reason)))
	default:
		c.log.Debug("queue ended", append(fields, zap.String("reason", reason))...)
	}
}

// endRequests ends all commands: the connection has ended, or is about to.
func (q *queue) endRequests() {
	for i := range q.requests {
		q.requests[i].stop(capsule.StatusSQDeleted)
	}
	q.shard.StopTimer(&q.look)
}

// executesIO reports whether the queue is a connected I/O queue.
func (q *queue) executesIO() bool { return q.controller != nil && q.id != 0 }

// noteError adds a failed command to the controller's error log.
func (q *queue) noteError(r *request, s capsule.Status) {
	if q.controller == nil || q.failed {
		return
	}
	q.controller.errors.add(capsule.ErrorLogEntry{
		Count: q.controller.subsystem.errors.Add(1),
		SQID:  q.id, CID: r.cmd.CID, Status: s, Parameter: r.location(s),
		LBA: r.lba(), NSID: r.cmd.NSID, TRTYPE: capsule.TransportRDMA, Opcode: r.cmd.Opcode,
	})
}

// lossRemedy returns what to check if a host no longer acknowledged anything. The host may be gone; but if it is
// not, it did receive the small packets of the connection setup.
func lossRemedy(err error) string {
	var transfer *fabric.TransferError
	if !errors.As(err, &transfer) || transfer.Status != rdmatransport.StatusRetryExceeded {
		return ""
	}
	return "is the host gone? if not: does the network carry packets as large as the MTU of both ends? (ping -M do -s 4128, to and from the host)"
}

// isDisconnect reports a disconnect by either side.
func isDisconnect(err error) bool { return errors.Is(err, rdmatransport.ErrDisconnected) }

func (q *queue) logRefusal(f capsule.Connect, d *capsule.ConnectData, no refusal) {
	fields := []zap.Field{
		zap.Stringer("peer", q.remote), zap.String("host", printable(&d.HostNQN)),
		zap.String("subsystem", printable(&d.SubNQN)), zap.Uint16("qid", uint16(f.QID)),
		zap.String("reason", no.reason), zap.Stringer("status", no.status),
	}
	if no.remedy != "" {
		fields = append(fields, zap.String("remedy", no.remedy))
	}
	q.target.log.Trouble("connect refused", fields...)
	recordEvent(q.target, events.Refused, events.Warning, events.Event{Address: q.remote.String(), Host: printable(&d.HostNQN), Subsystem: printable(&d.SubNQN),
		Text: because(because("connect refused", no.reason), no.remedy)})
}

// printable returns a name from a peer in printable form: quoted unless it is a valid NQN.
func printable(f *capsule.NQNField) string {
	if f.Check() == nil {
		return f.String()
	}
	s := f.String()
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.QuoteToASCII(s)
}
