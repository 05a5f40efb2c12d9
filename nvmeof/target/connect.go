package target

import (
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
)

const invalidField = capsule.StatusInvalidField | capsule.StatusDNR

// Fields that the result of a failed Connect command names.
var (
	badQID     = capsule.InvalidParameter{Offset: capsule.ConnectOffsetQID, In: capsule.InvalidInCommand}
	badSQSIZE  = capsule.InvalidParameter{Offset: capsule.ConnectOffsetSQSIZE, In: capsule.InvalidInCommand}
	badHostID  = capsule.InvalidParameter{Offset: capsule.ConnectOffsetHostID, In: capsule.InvalidInData}
	badCNTLID  = capsule.InvalidParameter{Offset: capsule.ConnectOffsetCNTLID, In: capsule.InvalidInData}
	badSubNQN  = capsule.InvalidParameter{Offset: capsule.ConnectOffsetSubNQN, In: capsule.InvalidInData}
	badHostNQN = capsule.InvalidParameter{Offset: capsule.ConnectOffsetHostNQN, In: capsule.InvalidInData}
)

// A refusal is why a Connect command failed; the zero value means that it did not. Linux since 6.10 removes a
// controller, and its block devices, if a Connect fails with Do Not Retry while it reconnects. So the flag is set
// if the Connect will fail again whatever the target does (malformed), and if an administrator has decided so
// (forbidden), but not if the reason is temporary.
type refusal struct {
	status  capsule.Status
	at      capsule.InvalidParameter
	reason  string
	remedy  string // what an operator can do about it
	decided bool   // by an administrator, as the configuration is now
}

func (r refusal) refused() bool { return r.status != capsule.StatusSuccess }

// malformed refuses a command that violates the specification.
func malformed(at capsule.InvalidParameter, reason string) refusal {
	return refusal{status: capsule.StatusConnectInvalidParam | capsule.StatusDNR, at: at, reason: reason}
}

// forbidden refuses what an administrator has not allowed.
func forbidden(status capsule.Status, at capsule.InvalidParameter, reason, remedy string) refusal {
	return refusal{status | capsule.StatusDNR, at, reason, remedy, true}
}

// temporary refuses what may be accepted soon, without an administrator's action.
func temporary(at capsule.InvalidParameter, reason string) refusal {
	return refusal{status: capsule.StatusConnectInvalidParam, at: at, reason: reason}
}

// busy refuses because a resource is not available at the moment.
func busy(reason, remedy string) refusal {
	return refusal{status: capsule.StatusConnectControllerBusy, reason: reason, remedy: remedy}
}

// settle makes a refusal temporary if a change that is under way, here or at other targets, may reverse it.
func (no refusal) settle(t *Target, mark uint64) refusal {
	g := t.cfg.Gateway
	switch {
	case !no.decided:
		return no
	case g != nil && g.behind.Load(): // checked before the change that resets it ends
		return busy("this gateway does not have the group's configuration yet: "+no.reason, "see nvmeof gateway list and the log for what is missing")
	case t.unsettled.since(mark):
		return busy("the target is being changed: "+no.reason, no.remedy)
	}
	return no
}

// connect executes a Connect command, with its 1024 bytes of data, on a queue that is not connected yet (NVMe base
// 2.0, 6.3).
func (q *queue) connect(r *request) capsule.Status {
	f := r.cmd.Connect()
	d, err := capsule.DecodeConnectData(r.data)
	if err != nil {
		return capsule.StatusSGLDataLength | capsule.StatusDNR
	}
	var no refusal
	var sub *Subsystem
	mark := q.target.unsettled.mark()
	if no = q.checkConnect(f, &d); !no.refused() {
		sub, no = q.target.admit(f, &d)
	}
	if !no.refused() {
		if f.QID == 0 {
			no = q.connectAdmin(f, sub, &d)
		} else {
			no = q.connectIO(sub, &d)
		}
	}
	no = no.settle(q.target, mark)
	q.target.countConnect(no)
	if no.refused() {
		q.logRefusal(f, &d, no)
		r.result = no.at.Result()
		return no.status
	}
	q.wire.SetEntries(int(f.SQSIZE) + 1)
	if f.CATTR&capsule.ConnectNoFlowControl != 0 {
		q.wire.DisableFlowControl()
	}
	q.shard.StopTimer(&q.timer)
	locked := q.lock()
	if !locked {
		q.heard()
	}
	r.result = capsule.ConnectResponse{CNTLID: q.controller.id, ATR: locked}.Result()
	return capsule.StatusSuccess
}

// checkConnect checks the parameters that do not depend on the target's state.
func (q *queue) checkConnect(f capsule.Connect, d *capsule.ConnectData) refusal {
	switch {
	case f.RECFMT != 0:
		return refusal{status: capsule.StatusConnectIncompatibleFormat | capsule.StatusDNR, reason: "record format is not 0"}
	case f.QID != q.id:
		return malformed(badQID, "queue identifier differs from the connection request's")
	case f.SQSIZE == 0 || uint32(f.SQSIZE) >= q.entries || q.id != 0 && int(f.SQSIZE) >= q.target.cfg.QueueDepth:
		return malformed(badSQSIZE, "queue size is 0, above the connection request's HSQSIZE or, of an I/O queue, above CAP.MQES")
	}
	if err := d.SubNQN.Check(); err != nil {
		return malformed(badSubNQN, "subsystem "+err.Error())
	}
	if err := d.HostNQN.Check(); err != nil && err != capsule.ErrNQNEmpty { // some SPDK hosts have none
		return malformed(badHostNQN, "host "+err.Error())
	}
	return refusal{}
}

// notAllowed refuses a host that is not allowed.
func notAllowed(host, subsystem nvmeof.NQN) refusal {
	if host == "" {
		return forbidden(capsule.StatusConnectInvalidHost, badHostNQN, "the host sent no NQN, and the subsystem only allows hosts that are listed by NQN",
			"set the host's NQN (SPDK: hostnqn:NQN in the transport ID) and allow it, or allow every host: nvmeof subsystem set "+word(subsystem)+" --allow-any-host")
	}
	return forbidden(capsule.StatusConnectInvalidHost, badHostNQN, "host is not allowed", allowRemedy(host, subsystem))
}

// notReady refuses a host that is allowed but cannot be admitted yet.
func notReady(h *access.Host[HostConfig]) refusal {
	if h.Config.Unready == "" {
		return refusal{}
	}
	return busy("host is allowed, but cannot connect yet: "+h.Config.Unready, "correct that; nvmeof ls shows what the target waits for")
}

// connectAdmin creates a controller. In the dynamic controller model, the host does not select one.
func (q *queue) connectAdmin(f capsule.Connect, sub *Subsystem, d *capsule.ConnectData) refusal {
	if d.CNTLID != capsule.ControllerIDDynamic {
		return malformed(badCNTLID, "controller identifier is not FFFFh, as the dynamic model requires")
	}
	if sub.discovery && !q.target.arrivals.allow(q.remote.Addr(), time.Now()) {
		return busy("too many discovery connections from this address within a second",
			"make the host connect less often, or keep one persistent connection: nvme discover --persistent")
	}
	c := newController(q, sub, d)
	if no := sub.join(c); no.refused() {
		return no
	}
	if sub.discovery {
		q.target.follow(c)
	}
	c.start(f.KATO)
	q.controller = c
	return refusal{}
}

// connectIO adds the queue to the controller that the host names. That controller may end at any time, and its
// identifier may then be reused for another host; then the host has to connect a new controller.
func (q *queue) connectIO(sub *Subsystem, d *capsule.ConnectData) refusal {
	c := sub.controller(d.CNTLID)
	switch {
	case sub.discovery:
		return malformed(badQID, "discovery controllers have no I/O queues")
	case c == nil:
		return temporary(badCNTLID, "no such controller")
	case !d.HostNQN.Is(string(c.hostNQN)):
		return temporary(badHostNQN, "controller belongs to another host")
	case c.hostID != d.HostID:
		return temporary(badHostID, "controller belongs to another host")
	case c.listener != q.listener:
		return temporary(badCNTLID, "controller belongs to another listener")
	}
	if no := c.joinQueue(q, q.id); no.refused() {
		return no
	}
	q.controller = c
	c.log.Debug("I/O queue connected", zap.Uint16("qid", uint16(q.id)), zap.Int("shard", int(q.worker.lanes.Index)))
	return refusal{}
}
