package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A link is one connected queue of a controller.
type link struct {
	controller *Controller
	qid        capsule.QID
	depth      int
	shard      *shard.Shard
	pool       *pool
	queue      *fabric.HostQueue
	ended      chan struct{} // closed when the queue has given everything back
	onEnd      func()        // in the loop, before
}

// maxReads bounds the RDMA READs that we serve a controller: the field of the
// connection exchange has 8 bits.
const maxReads = 255

// openLink connects a queue: the RDMA connection, then the Connect command.
func (c *Controller) openLink(ctx context.Context, qid capsule.QID, shardIndex, depth, inCapsule int) (*link, error) {
	l := &link{
		controller: c, qid: qid, depth: depth, shard: c.host.shards[shardIndex],
		pool: c.pools[shardIndex], ended: make(chan struct{}),
	}
	q, err := fabric.NewHost(fabric.HostConfig{
		Shard: l.shard, Domain: c.domain, Attrs: c.host.attrs, Depth: depth, InCapsule: inCapsule,
		Descriptors: c.limits.descriptorsOf(qid), Windows: c.windows, Timeout: c.options.timeout(), Ended: l.end,
	})
	if err != nil {
		return nil, err
	}
	l.queue = q
	if err := l.open(ctx); err != nil {
		return nil, c.connectError(fmt.Sprintf("connecting queue %d", qid), errors.Join(err, q.Free()))
	}
	r, err := l.connectCommand(ctx)
	if err == nil {
		err = l.proveAtConnect(ctx, r)
	}
	if err == nil {
		err = c.add(l)
	}
	if err != nil {
		l.disconnect()
		<-l.ended
		return nil, c.connectError(fmt.Sprintf("connecting queue %d", qid), errors.Join(err, q.Free()))
	}
	return l, nil
}

// open makes the RDMA connection. On an error the queue has ended.
func (l *link) open(ctx context.Context) error {
	c := l.controller
	var qp rdmatransport.QueuePair
	var err error
	if callErr := l.shard.Call(func() { qp, err = l.queue.Open() }); callErr != nil || err != nil {
		return errors.Join(callErr, err)
	}
	reply, err := c.host.device.Connect(ctx, qp, c.options.addr(), rdmatransport.ConnParams{
		PrivateData:        l.queue.RequestData(l.qid, c.idFor(l.qid)),
		ResponderResources: min(c.host.attrs.MaxReadsIn, maxReads),
		RetryCount:         7, RNRRetryCount: 7, TrafficClass: c.options.TOS,
	})
	if err == nil {
		err = refuse(checkReply(reply))
	}
	if err != nil {
		if l.shard.Do(func() { l.queue.Fail(err) }) {
			<-l.ended
		}
		return err
	}
	return l.shard.Call(l.queue.Established)
}

// idFor is the controller identifier of a queue's connection request.
func (c *Controller) idFor(q capsule.QID) capsule.ControllerID {
	if q == 0 {
		return 0 // none yet
	}
	return c.cntlid
}

// checkReply reads what the controller attached. CRQSIZE tells nothing that a
// host could act on.
func checkReply(r rdmatransport.ConnReply) error {
	d, err := capsule.DecodeAcceptData(r.PrivateData)
	if err != nil {
		return fmt.Errorf("reply to the connection request: %w", err)
	}
	if d.RECFMT != 0 {
		return fmt.Errorf("reply to the connection request has record format %d: not an NVMe controller of version 1", d.RECFMT)
	}
	return nil
}

// end is called in the loop when the queue has ended.
func (l *link) end(err error) {
	if l.onEnd != nil {
		l.onEnd()
	}
	l.controller.lostQueue(l, fmt.Errorf("queue %d: %w", l.qid, err))
	close(l.ended)
}

// explain prefers the reason for which the controller was lost to what the queue
// saw of it.
func (l *link) explain(err error) error {
	if err == nil {
		return nil
	}
	if why := l.controller.Err(); why != nil {
		return why
	}
	return err
}

// disconnect ends the queue; ended tells when that is done.
func (l *link) disconnect() { l.shard.Do(l.queue.Disconnect) }

// connectCommand sends Connect (NVMe base 2.0, 6.3).
func (l *link) connectCommand(ctx context.Context) (capsule.ConnectResponse, error) {
	c := l.controller
	o := &c.options
	cmd := capsule.FabricsCommand(capsule.FabricsConnect)
	fields := capsule.Connect{QID: l.qid, SQSIZE: uint16(l.depth - 1)}
	data := capsule.ConnectData{
		HostID: o.HostID, CNTLID: capsule.ControllerIDDynamic,
		SubNQN: capsule.MakeNQNField(string(o.NQN)), HostNQN: capsule.MakeNQNField(string(o.HostNQN)),
	}
	if l.qid == 0 {
		fields.KATO = uint32(o.keepAlive() / time.Millisecond)
	} else {
		data.CNTLID = c.cntlid
	}
	if o.DisableSQFlow {
		fields.CATTR = capsule.ConnectNoFlowControl
	}
	fields.Put(&cmd)
	b := make([]byte, capsule.ConnectDataSize)
	data.Encode(b)
	done, err := l.execute(ctx, cmd, b)
	if err != nil {
		return capsule.ConnectResponse{}, err
	}
	r := capsule.ParseConnectResponse(done.Result)
	return r, refuse(l.checkConnect(r))
}

func (l *link) checkConnect(r capsule.ConnectResponse) error {
	c := l.controller
	switch {
	case r.ASCR:
		return errors.New("controller asks for a secure channel, which NVMe over RDMA does not have")
	case r.CNTLID < capsule.ControllerIDMin || r.CNTLID > capsule.ControllerIDMax:
		return fmt.Errorf("controller has the reserved identifier %#x", uint16(r.CNTLID))
	case l.qid == 0:
		c.cntlid = r.CNTLID
	case r.CNTLID != c.cntlid:
		return fmt.Errorf("queue was connected to controller %d instead of %d", r.CNTLID, c.cntlid)
	}
	return nil
}

// withDefaults completes options from the host's identity.
func (h *Host) withDefaults(o Options) Options {
	if o.HostNQN == "" {
		o.HostNQN = h.identity.NQN
	}
	if o.HostID == (capsule.HostID{}) {
		o.HostID = h.identity.ID
	}
	return o
}
