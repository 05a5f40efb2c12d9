package target

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

const (
	// farewellTime is the time for a host to end the connection by itself after either side has failed the
	// exchange. If the connection ends while Linux 6.12 waits for a response in this phase, Linux waits for the
	// whole timeout of a command, 60 s.
	farewellTime = time.Second
	// maxAuthData limits TL and AL. It is well above the longest message.
	maxAuthData = 64 << 10
)

// An authentication is the authentication state of a queue: the exchange in progress and the result of earlier
// ones. It belongs to the queue's shard.
type authentication struct {
	locked   bool             // only authentication commands are executed
	exchange *auth.Controller // owned by the authenticator while it computes; nil before the first exchange
	busy     bool
	ended    atomic.Bool // the connection has ended; read by the authenticator and blocking calls
	ctrlKey  bool        // the exchange has a key to authenticate the controller
	last     *request    // the last command of a failed exchange, after which the queue ends
	timer    shard.Timer
}

// authCounts are the counters of a target, written by all shards.
type authCounts struct {
	succeeded, failed, timedOut, refused, interrupted, abandoned atomic.Uint64
}

// AuthCounts counts authentications since the target's start.
type AuthCounts struct {
	Succeeded uint64 `json:"succeeded"` // queues authenticated, including repeated authentication
	Failed    uint64 `json:"failed"`    // exchanges that either side refused
	TimedOut  uint64 `json:"timed-out"` // exchanges that were not finished in time
	Refused   uint64 `json:"refused"`   // commands refused on queues that were not authenticated
	// Interrupted counts messages that the host has to repeat, since too many from its address waited to be
	// processed.
	Interrupted uint64 `json:"interrupted"`
	Abandoned   uint64 `json:"abandoned"` // exchanges during which the host ended the connection
}

// AuthCounts returns the counters.
func (t *Target) AuthCounts() AuthCounts {
	c := &t.authCounts
	return AuthCounts{c.succeeded.Load(), c.failed.Load(), c.timedOut.Load(), c.refused.Load(), c.interrupted.Load(), c.abandoned.Load()}
}

// hostEntry returns the current configuration of the queue's host.
func (q *queue) hostEntry() HostConfig {
	return q.controller.subsystem.hostConfig(q.controller.hostNQN)
}

// lock is called at Connect. If the host has a key, it locks the queue, so that the host has to authenticate on it
// before any other command, and returns true.
func (q *queue) lock() bool {
	if h := q.hostEntry(); !h.authenticates() {
		return false
	}
	q.auth.locked = true
	q.startAuthTimer()
	return true
}

func (q *queue) startAuthTimer() {
	q.auth.timer.Func = q.authTimedOut
	q.shard.SetTimer(&q.auth.timer, q.target.cfg.AuthTimeout)
}

// beforeAuth reports whether a locked queue executes the command.
func beforeAuth(cmd *capsule.Command) bool {
	t := cmd.FabricsType()
	return cmd.Opcode == capsule.OpcodeFabrics && (t == capsule.FabricsAuthSend || t == capsule.FabricsAuthReceive)
}

// refuseLocked fails a command that was sent before authentication.
func (q *queue) refuseLocked(r *request) {
	q.target.authCounts.refused.Add(1)
	r.finish(capsule.StatusAuthenticationRequired | capsule.StatusDNR)
}

// checkAuth checks the fields of Authentication Send and Receive before their data is transferred. It fails them
// for a host without a key.
func checkAuth(q *queue, r *request) capsule.Status {
	f, h := r.cmd.Auth(), q.hostEntry()
	switch {
	case q.auth.exchange == nil && !h.authenticates():
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	case f.SECP != capsule.SecurityProtocol, f.SPSP0 != 1, f.SPSP1 != 1,
		f.Length == 0, f.Length > maxAuthData, uint64(f.Length) != uint64(r.link.Length()):
		return invalidField
	}
	return capsule.StatusSuccess
}

func authLength(_ *Controller, cmd *capsule.Command) uint64 { return uint64(cmd.Auth().Length) }

// authSend receives a message of the host. The command completes when the message has been processed.
func authSend(_ *Controller, r *request) capsule.Status {
	q := r.queue
	a := &q.auth
	if a.busy || a.last != nil {
		return capsule.StatusCommandSequence | capsule.StatusDNR
	}
	if a.exchange == nil || a.exchange.Ended() {
		status := q.beginExchange()
		if !status.OK() {
			return status
		}
	}
	if !a.exchange.Begin(r.data) {
		q.authReceived(r)
		return capsule.StatusSuccess
	}
	a.busy = true
	ok := q.target.authenticator.offer(authJob{q.remote.Addr(), a.exchange, &a.ended, func() {
		q.shard.Do(func() { q.authComputed(r) })
	}})
	if !ok {
		a.busy = false
		q.target.authCounts.interrupted.Add(1)
		q.target.log.Trouble("authentication postponed: too many authentication messages wait to be processed", q.authFields()...)
		return capsule.StatusCommandInterrupted // the host may repeat it
	}
	r.release() // otherwise the buffer would be held for as long as the computation takes
	return statusLater
}

// authComputed continues in the shard when the authenticator has processed a message.
func (q *queue) authComputed(r *request) {
	q.auth.busy = false
	q.authReceived(r)
	r.finish(capsule.StatusSuccess)
}

// beginExchange starts an exchange with the current keys.
func (q *queue) beginExchange() capsule.Status {
	h := q.hostEntry()
	switch {
	case h.Unready != "":
		return capsule.StatusCommandInterrupted // the host may repeat it
	case h.DHCHAPKey.IsZero():
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	a := &q.auth
	a.ctrlKey = !h.DHCHAPCtrlKey.IsZero()
	a.exchange = auth.NewController(auth.ControllerConfig{
		HostNQN: q.controller.hostNQN, SubsystemNQN: q.controller.subsystem.nqn,
		HostKey: h.DHCHAPKey, ControllerKey: h.DHCHAPCtrlKey, Hashes: h.DHCHAPHashes, Groups: h.DHCHAPGroups,
		Sequence: q.target.nextSequence(), Random: rand.Reader,
	})
	if !a.locked { // the timer of a locked queue has run since Connect
		q.startAuthTimer()
	}
	return capsule.StatusSuccess
}

// nextSequence returns the next sequence number of challenges; 0 means none.
func (t *Target) nextSequence() auth.Sequence {
	for {
		if n := t.sequence.Add(1); n != 0 {
			return auth.Sequence(n)
		}
	}
}

// authReceived continues when a message has been processed.
func (q *queue) authReceived(r *request) {
	if q.failed {
		return
	}
	switch q.auth.exchange.State() {
	case auth.StateDone: // Success2
		q.authenticated()
	case auth.StateFailed: // AUTH_Failure2
		q.authFailed()
		q.auth.last = r
	case auth.StateFailure: // the host fetches the reason next
		q.authFailed()
	}
}

// authEnded is called when the connection has ended. A host that leaves an exchange which has required a
// computation, and has not failed, counts as one that has failed.
func (q *queue) authEnded() {
	a := &q.auth
	q.shard.StopTimer(&a.timer)
	if a.ended.Store(true); a.exchange == nil || !a.busy && (a.exchange.Ended() || a.exchange.Err() != nil) {
		return
	}
	if q.why == "" {
		q.target.authCounts.abandoned.Add(1)
	}
	q.target.authenticator.abandoned(q.remote.Addr())
}

// authReceive sends the host the message that is due, followed by zeroes.
func authReceive(_ *Controller, r *request) capsule.Status {
	q := r.queue
	a := &q.auth
	if a.busy || a.exchange == nil {
		return invalidField
	}
	m := a.exchange.Pending()
	if m == nil || len(m) > len(r.data) {
		return invalidField
	}
	copy(r.data, m)
	switch a.exchange.Sent(); a.exchange.State() {
	case auth.StateDone:
		q.authenticated()
	case auth.StateFailed:
		a.last = r
	}
	return capsule.StatusSuccess
}

// authenticated handles an exchange that succeeded.
func (q *queue) authenticated() {
	a, c := &q.auth, q.controller
	q.shard.StopTimer(&a.timer)
	q.target.authCounts.succeeded.Add(1)
	if q == c.admin && !c.owns {
		no := c.own(true)
		if !no.refused() {
			no = makeRoomProven(c)
		}
		if no.refused() {
			recordHostEvent(c, events.Refused, events.Warning, because("authenticated, but refused: "+no.reason, no.remedy))
			q.target.log.Trouble("host disconnected", append(q.authFields(), zap.String("reason", no.reason), zap.String("remedy", no.remedy))...)
			c.dismissed = true
			c.end(no.reason)
			return
		}
	}
	if why := q.target.memory.own(&q.mapping, c.hostNQN); why != "" {
		q.target.log.Trouble("queue ended: no queue memory for the host", append(q.authFields(), zap.String("reason", why))...)
		q.endUnproven("no queue memory for the host")
		return
	}
	a.locked = false
	if !q.proven {
		q.heard()
	}
	hash, group := a.exchange.Algorithms()
	fields := []zap.Field{
		zap.Uint16("qid", uint16(q.id)), zap.Stringer("hash", hash), zap.Stringer("dhgroup", group),
		zap.Bool("controller_too", a.exchange.Mutual()),
	}
	if q != c.admin {
		c.log.Debug("host authenticated", fields...)
		return
	}
	c.authenticated.Store(true)
	q.target.log.Comings.Write(c.log.Info, "host authenticated", fields)
}

// authFailed handles an exchange that failed. It logs host, reason and remedy.
func (q *queue) authFailed() {
	a := &q.auth
	a.locked = true
	q.target.authCounts.failed.Add(1)
	f := authFailure{err: a.exchange.Err(), host: q.controller.hostNQN, ctrlKey: a.ctrlKey, mutual: a.exchange.Mutual()}
	recordHostEvent(q.controller, events.Refused, events.Warning, because("authentication failed, refused by the "+f.by()+": "+f.err.Error(), f.remedy()))
	q.target.log.Trouble("authentication failed", append(q.authFields(),
		zap.String("refused_by", f.by()), zap.String("reason", f.err.Error()), zap.String("remedy", f.remedy()))...)
}

func (q *queue) authFields() []zap.Field {
	c := q.controller
	return []zap.Field{
		zap.Stringer("peer", q.remote), zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(c.subsystem.nqn)),
		zap.Uint16("qid", uint16(q.id)),
	}
}

func (q *queue) authTimedOut() {
	if a := &q.auth; a.exchange != nil && !a.busy && a.exchange.Err() != nil {
		q.endUnproven("authentication failed") // logged before
		return
	}
	q.target.authCounts.timedOut.Add(1)
	recordHostEvent(q.controller, events.Refused, events.Warning, "authentication not finished in time")
	q.target.log.Trouble("authentication not finished in time", append(q.authFields(), zap.Duration("within", q.target.cfg.AuthTimeout),
		zap.String("remedy", "nvme connect --dhchap-secret KEY, with the key of this host"))...)
	q.endUnproven("authentication not finished in time")
}

// endUnproven ends the association, or only this queue if its host was never admitted: the peer may not be the
// host.
func (q *queue) endUnproven(why string) {
	switch c := q.controller; {
	case q == c.admin:
		c.end(why)
	case q.proven:
		c.do(func() { c.end(why) })
	default:
		q.disconnect(why)
	}
}
