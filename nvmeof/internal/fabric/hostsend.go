package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// signalInterval is how many work requests go out between two completions
// where the capsule is copied at the post and nothing waits for the completion.
const signalInterval = 16

// A creditRing tells how many entries of the send queue each signaled work
// request gives back: its own and those of the unsignaled ones before it.
type creditRing struct {
	ring     []int32
	head     int
	count    int
	unsigned int32 // posted since the last signaled one
}

func (c *creditRing) init(size int) { c.ring = make([]int32, size) }

// add counts a work request in; it ends a group if it is signaled.
func (c *creditRing) add(signaled bool) {
	c.unsigned++
	if signaled {
		c.ring[(c.head+c.count)%len(c.ring)] = c.unsigned
		c.count++
		c.unsigned = 0
	}
}

// take returns what the oldest signaled work request gives back.
func (c *creditRing) take() int {
	if c.count == 0 {
		return 0
	}
	n := c.ring[c.head]
	c.head = (c.head + 1) % len(c.ring)
	c.count--
	return int(n)
}

func (h *hostConsumer) Flush() {
	q := (*HostQueue)(h)
	if q.state != StateLive {
		return
	}
	q.collectKills()
	err := q.postRecvs()
	if err == nil {
		err = q.startPending()
	}
	if err == nil {
		err = q.send.post(q.qp)
	}
	if err != nil {
		q.send.Clear() // the next queue's is the same
		q.fail(err)
	}
}

// startPending collects the commands for which there is room. Windows are bound
// in one post of their own first, since a bind changes the key that the capsule
// tells.
func (q *HostQueue) startPending() error {
	q.starting = q.starting[:0]
	first := q.line.First()
	for from := first; from != nil; {
		next := from.link.Next()
		for r := from.pending.First(); r != nil && q.admit(from, r); r = from.pending.First() {
			q.starting = append(q.starting, q.open(from, from.pending.Pop()))
		}
		from.returnGrant()
		from.rest()
		from = next
	}
	if first != nil && first.link.Linked() { // another is the first next time
		q.line.Remove(&first.link)
		q.line.Push(first, &first.link)
	}
	if len(q.send.Writes) > 0 { // the binds
		if err := q.send.post(q.qp); err != nil {
			return err
		}
	}
	for _, i := range q.starting {
		q.collect(&q.slots[i], i)
	}
	return nil
}

// admit reports whether there is room for one more command: a slot, entries of
// the send queue beside those that invalidations may need, and, for data that
// the controller will send, receive buffer. The first half of a fused operation
// needs room for both, so that it never waits at the controller for the second.
func (q *HostQueue) admit(from *Source, r *Request) bool {
	n := 1
	if r.Command.Flags.Fuse() == capsule.FuseFirst {
		n = 2
	}
	kept := max(0, q.cfg.Reserved-int(r.Urgency))
	if len(q.free) < n+kept || q.send.room < q.windows+len(q.starting)+3*n+2*len(r.More) {
		return false
	}
	if q.cfg.Windows && len(r.More) > len(q.spares.free) {
		return false
	}
	return r.Length == 0 || r.writes() || from.take(r.total())
}

// open makes a slot a command's. Its identifier differs from those that the
// slot had lately, so that a late or repeated response hits nobody.
func (q *HostQueue) open(from *Source, r *Request) int32 {
	n := len(q.free) - 1
	i := q.free[n]
	q.free = q.free[:n]
	s := &q.slots[i]
	s.req, s.cid = r, s.nextCID(q.slotBits, i)
	s.answered, s.sending, s.keyed, s.killing = false, false, false, false
	s.sentAt = q.cfg.Shard.Now()
	s.source, s.more = from, 0
	if r.Length > 0 && !r.writes() && from.from.Budget().Limit() > 0 {
		from.lend(s, r.total())
	}
	if q.cfg.Windows && r.Length > 0 && !q.fitsCapsule(r) {
		q.bind(s, i)
		q.bindMore(s, i)
	}
	return i
}

func (s *hostSlot) nextCID(slotBits int, i int32) capsule.CID {
	for {
		s.generation++
		id := capsule.CID(uint32(s.generation)<<slotBits | uint32(i))
		if id != 0xffff && !(s.retains && id == s.retained) { // that is kept for the error log (NVMe base 2.0, 3.3.3.1)
			return id
		}
	}
}

func (q *HostQueue) fitsCapsule(r *Request) bool {
	return r.writes() && r.Length <= q.cfg.InCapsule && len(r.More) == 0
}

// bind opens a window over the request's data, in one direction only.
func (q *HostQueue) bind(s *hostSlot, i int32) {
	write := s.req.writes()
	access := rdmatransport.AccessRemoteWrite
	if write {
		access = rdmatransport.AccessRemoteRead
	}
	s.keyed = true
	q.collectBind(i, s.window, access, rdmatransport.SGE{Buf: s.req.Buf(), LKey: s.req.Memory.region(write).LKey()})
}

func (q *HostQueue) collectBind(i int32, w rdmatransport.Window, access rdmatransport.Access, over rdmatransport.SGE) {
	q.windows++
	start := len(q.send.SGEs)
	q.send.SGEs = append(q.send.SGEs, over)
	q.send.Writes = append(q.send.Writes, rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagBind, i)), Op: rdmatransport.OpBindWindow,
		SGL: q.send.SGEs[start : start+1 : start+1], Window: w, Access: access,
	})
	q.charge(false)
}

// collect adds a command's capsule to the turn's batch.
func (q *HostQueue) collect(s *hostSlot, i int32) {
	r := s.req
	cmd := &r.Command
	cmd.Flags, cmd.CID = capsule.FlagsSGL|capsule.CommandFlags(cmd.Flags.Fuse()), s.cid
	inCapsule := false
	switch {
	case r.Length == 0:
		cmd.SGL = capsule.KeyedSGL(0, 0, 0, false)
	case s.keyed:
		s.key = s.window.RKey()
		cmd.SGL = capsule.KeyedSGL(s.window.IOVA(), uint32(r.Length), uint32(s.key), true)
	case q.fitsCapsule(r):
		inCapsule = true
		cmd.SGL = capsule.InCapsuleSGL(0, uint32(r.Length))
	default:
		cmd.SGL = shared(r.Memory, r.Offset, r.Length, r.writes())
	}
	b := q.capsule(i)[:capsule.CommandSize]
	if len(r.More) > 0 {
		b = q.list(i, cmd)
	}
	cmd.Encode(b)
	q.collectSend(s, i, b, inCapsule)
}

func (q *HostQueue) charge(signaled bool) {
	q.send.room--
	q.credits.add(signaled)
}

// collectSend adds the SEND of a capsule, with its data if that goes along.
func (q *HostQueue) collectSend(s *hostSlot, i int32, b []byte, data bool) {
	r := s.req
	start, bytes := len(q.send.SGEs), len(b)
	q.send.SGEs = append(q.send.SGEs, rdmatransport.SGE{Buf: b, LKey: q.region.LKey()})
	if data {
		q.send.SGEs = append(q.send.SGEs, rdmatransport.SGE{Buf: r.Buf(), LKey: r.Memory.region(true).LKey()})
		bytes += r.Length
	}
	end := len(q.send.SGEs)
	wr := rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagSend, i)), Op: rdmatransport.OpSend,
		Flags: rdmatransport.FlagSignaled, SGL: q.send.SGEs[start:end:end],
	}
	if bytes <= q.inline {
		wr.ID = q.slot.ID(makeTag(tagCredit, 0))
		wr.Flags = rdmatransport.FlagInline
		if q.credits.unsigned+1 >= signalInterval {
			wr.Flags |= rdmatransport.FlagSignaled
		}
	} else {
		s.sending = true
	}
	q.send.Sends = append(q.send.Sends, wr)
	q.charge(wr.Flags&rdmatransport.FlagSignaled != 0)
}

// kill has the window closed of a command whose controller did not.
func (q *HostQueue) kill(s *hostSlot, i int32) {
	s.killing = true
	q.kills = append(q.kills, i)
	q.slot.Flush()
}

func (q *HostQueue) collectKills() {
	for _, i := range q.kills {
		q.send.Sends = append(q.send.Sends, rdmatransport.SendWR{
			ID: q.slot.ID(makeTag(tagInvalidate, i)), Op: rdmatransport.OpInvalidate,
			Flags: rdmatransport.FlagSignaled, InvalidateKey: q.slots[i].key,
		})
		q.charge(true)
	}
	q.kills = q.kills[:0]
	q.collectMoreKills()
}
