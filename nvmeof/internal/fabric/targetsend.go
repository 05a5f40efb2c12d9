package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const noFlowControlSQHD = 0xffff

// respond queues the response, preceded by n bytes of data from the pieces.
func (c *Command) respond(s capsule.Status, result uint64, n int) {
	q := c.queue
	q.inUse.remove(c)
	if q.state != StateLive {
		q.bury(c)
		return
	}
	// The capsule's buffers are free: this receive is posted before the response.
	q.collectRecv(int(c.recv))
	c.holds = false
	c.state, c.write = commandResponding, n
	c.cqe = capsule.Completion{Result: result, SQHD: q.nextHead(), CID: c.SQE.CID, Status: s}
	q.responses.Push(c, &c.link)
	q.slot.Flush()
}

// nextHead advances the submission queue head by one command.
func (q *TargetQueue) nextHead() uint16 {
	if q.noFlow {
		return noFlowControlSQHD
	}
	if q.sqhd++; int(q.sqhd) >= q.entries {
		q.sqhd = 0
	}
	return q.sqhd
}

func (t *targetConsumer) Flush() {
	q := (*TargetQueue)(t)
	if q.state != StateLive {
		return
	}
	q.collectReads()
	for c := q.responses.First(); c != nil && q.collectResponse(c); c = q.responses.First() {
		q.responses.Remove(&c.link)
		c.state = commandSent
	}
	q.collectProbe()
	q.armProgress()
	err := q.postRecvs()
	if err == nil {
		err = q.send.post(q.qp)
	}
	if err != nil {
		q.send.Clear() // the loop's batch must be empty for the next queue
		q.fail(err)
	}
}

// collectResponse collects the writes and the send of a response. It collects nothing while the send queue has no room
// for all of them.
func (q *TargetQueue) collectResponse(c *Command) bool {
	need := int32(1 + q.writesOf(c))
	if int(need) > q.send.room {
		return false
	}
	q.collectWrites(c)
	b := q.memory.response(int(c.Index))
	c.cqe.Encode(b)
	wr := rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagSend, c.Index)), Op: rdmatransport.OpSend,
		Flags: rdmatransport.FlagSignaled | rdmatransport.FlagRelaxed | rdmatransport.FlagSolicited,
	}
	if c.data.invalidate && !q.cfg.PlainSend {
		wr.Flags |= rdmatransport.FlagInvalidate
		wr.InvalidateKey = c.data.key
	}
	start := len(q.send.SGEs)
	q.send.SGEs = append(q.send.SGEs, q.memory.sge(b))
	wr.SGL = q.send.SGEs[start : start+1 : start+1]
	q.send.Sends = append(q.send.Sends, wr)
	q.send.room -= int(need)
	c.posted = need
	return true
}

// collectProbe collects the pending probe if that leaves room for a response.
func (q *TargetQueue) collectProbe() {
	if q.probe != probeDue {
		return
	}
	if q.probe = probeNone; q.send.room < 2 || q.responses.First() != nil {
		return
	}
	q.probe = probePosted
	q.send.room--
	q.send.Sends = append(q.send.Sends, rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagProbe, 0)), Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled,
	})
}

// probed handles the acknowledgement of a probe.
func (q *TargetQueue) probed() {
	q.progress.ended++
	q.probe = probeNone
	q.send.room++
	if q.responses.First() != nil || q.fetches.First() != nil {
		q.slot.Flush()
	}
}

// writesOf returns an upper bound for the RDMA WRITEs of a response's data: one per descriptor and one per further
// scatter list.
func (q *TargetQueue) writesOf(c *Command) int {
	if c.write == 0 {
		return 0
	}
	return len(c.data.remotes) + (len(c.pieces)-1)/q.send.maxSGE
}

func (q *TargetQueue) collectWrites(c *Command) {
	var at cursor
	left := c.write
	for i := 0; left > 0; i++ {
		r := &c.data.remotes[i]
		for off := 0; off < r.length && left > 0; {
			sgl, n := q.send.gather(&at, c.pieces, q.send.maxSGE, min(left, r.length-off))
			q.send.Writes = append(q.send.Writes, rdmatransport.SendWR{
				ID: q.slot.ID(makeTag(tagWrite, c.Index)), Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagRelaxed,
				SGL: sgl, RemoteAddr: r.addr + uint64(off), RKey: r.key,
			})
			off += n
			left -= n
		}
	}
}

// sent handles the acknowledgement of a response. The writes before it are acknowledged too.
func (q *TargetQueue) sent(c *Command) {
	q.progress.ended++
	q.send.room += int(c.posted)
	if q.responses.First() != nil || q.fetches.First() != nil {
		q.slot.Flush()
	}
	q.giveBack(c)
	q.proceed()
}

// giveBack returns a command to the handler and frees its context.
func (q *TargetQueue) giveBack(c *Command) {
	if c.given {
		c.given = false
		q.handler.Done(c)
	}
	if c.holds { // the queue has failed
		c.holds = false
		q.returnRecv(int(c.recv))
	}
	c.state = commandFree
	q.active--
	q.free.Push(c, &c.link)
}
