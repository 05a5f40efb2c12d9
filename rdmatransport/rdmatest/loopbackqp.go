package rdmatest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

type qpState uint8

const (
	qpInitial qpState = iota
	qpConnected
	qpError
	qpClosed
)

type queuePair struct {
	domain *domain
	cq     *completionQueue
	cfg    rdmatransport.QPConfig
	qpn    rdmatransport.QPN
	state  qpState
	err    error
	peer   *queuePair
	busy   bool

	send        queue[rdmatransport.SendWR]
	recv        queue[rdmatransport.RecvWR]
	shared      *sharedReceiveQueue // or nil; recv has what was taken from it
	endReported bool                // with shared
	taken       int                 // entries of the send queue, until a signaled one completes
	inline      []byte              // buffers of inline data, by entry of send
	windows     []*window

	local, remoteAddr   netip.AddrPort
	readsOut, readsIn   int
	unsignaledCompleted int
}

// A queue is a ring of work requests with their scatter lists.
type queue[T any] struct {
	wrs     []T
	sges    [][]rdmatransport.SGE
	first   int
	pending int
}

func (q *queue[T]) init(depth, sge int) {
	q.wrs, q.sges = make([]T, depth), make([][]rdmatransport.SGE, depth)
	for i := range q.sges {
		q.sges[i] = make([]rdmatransport.SGE, 0, sge)
	}
}

func (q *queue[T]) full(n int) bool { return q.pending+n > len(q.wrs) }

// add copies the scatter list and returns the copy and the place for the rest.
func (q *queue[T]) add(sgl []rdmatransport.SGE) ([]rdmatransport.SGE, *T) {
	i := (q.first + q.pending) % len(q.wrs)
	q.pending++
	q.sges[i] = append(q.sges[i][:0], sgl...)
	return q.sges[i], &q.wrs[i]
}

func (q *queue[T]) head() *T {
	if q.pending == 0 {
		return nil
	}
	return &q.wrs[q.first]
}

func (q *queue[T]) pop() {
	q.first = (q.first + 1) % len(q.wrs)
	q.pending--
}

func (d *domain) NewQueuePair(cfg rdmatransport.QPConfig) (rdmatransport.QueuePair, error) {
	cq, ok := cfg.CQ.(*completionQueue)
	if !ok || cq.device != d.device {
		return nil, errors.New("loopback: completion queue of another device")
	}
	def := func(v *int, fallback int) {
		if *v == 0 {
			*v = fallback
		}
	}
	def(&cfg.MaxSend, 128)
	def(&cfg.MaxRecv, 128)
	def(&cfg.MaxSGE, 2)
	n := d.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.closed || d.device.closed {
		return nil, rdmatransport.ErrClosed
	}
	n.lastQPN++
	q := &queuePair{domain: d, cq: cq, cfg: cfg, qpn: n.lastQPN}
	q.send.init(cfg.MaxSend, cfg.MaxSGE)
	if err := q.share(cfg.SharedRecv); err != nil {
		return nil, err
	}
	q.recv.init(q.cfg.MaxRecv, q.cfg.MaxSGE)
	d.device.qps = append(d.device.qps, q)
	return q, nil
}

func (q *queuePair) QPN() rdmatransport.QPN     { return q.qpn }
func (q *queuePair) LocalAddr() netip.AddrPort  { return q.local }
func (q *queuePair) RemoteAddr() netip.AddrPort { return q.remoteAddr }
func (q *queuePair) ReadDepth() int             { return q.readsOut }

func (q *queuePair) Err() error {
	q.cq.device.net.mu.Lock()
	defer q.cq.device.net.mu.Unlock()
	return q.err
}

func (q *queuePair) NewWindow() (rdmatransport.Window, error) {
	q.cq.device.net.mu.Lock()
	closed := q.state == qpClosed
	q.cq.device.net.mu.Unlock()
	if closed {
		return nil, rdmatransport.ErrClosed
	}
	if len(q.windows) == q.cfg.Windows {
		return nil, errors.New("loopback: no more windows")
	}
	w := &window{qp: q}
	q.windows = append(q.windows, w)
	return w, nil
}

func (q *queuePair) PostRecv(wrs []rdmatransport.RecvWR) error {
	q.cq.device.net.mu.Lock()
	defer q.cq.device.net.mu.Unlock()
	if q.state == qpClosed {
		return rdmatransport.ErrClosed
	}
	if q.shared != nil {
		return rdmatransport.ErrSharedRecv
	}
	if q.recv.full(len(wrs)) {
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if len(wrs[i].SGL) > q.cfg.MaxSGE {
			return fmt.Errorf("loopback: %d scatter elements, limit %d", len(wrs[i].SGL), q.cfg.MaxSGE)
		}
	}
	for i := range wrs {
		sgl, wr := q.recv.add(wrs[i].SGL)
		*wr = rdmatransport.RecvWR{ID: wrs[i].ID, SGL: sgl}
	}
	if q.state == qpError {
		q.flush()
	}
	if q.peer != nil && q.peer.send.pending > 0 {
		q.peer.cq.activate(q.peer)
		q.peer.cq.Wake()
	}
	return nil
}

func (q *queuePair) PostSend(wrs []rdmatransport.SendWR) error {
	q.cq.device.net.mu.Lock()
	defer q.cq.device.net.mu.Unlock()
	if q.state == qpClosed {
		return rdmatransport.ErrClosed
	}
	if q.state == qpInitial {
		return errors.New("loopback: queue pair is not connected")
	}
	if q.taken+len(wrs) > q.cfg.MaxSend {
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if err := q.check(&wrs[i]); err != nil {
			return err
		}
	}
	for i := range wrs {
		q.take(&wrs[i])
	}
	if q.state == qpError {
		q.flush()
		return nil
	}
	q.cq.activate(q)
	return nil
}

func (q *queuePair) check(wr *rdmatransport.SendWR) error {
	if len(wr.SGL) > q.cfg.MaxSGE {
		return fmt.Errorf("loopback: %d scatter elements, limit %d", len(wr.SGL), q.cfg.MaxSGE)
	}
	if limit := q.cq.device.attrs.MaxReadSGE; wr.Op == rdmatransport.OpRead && limit > 0 && len(wr.SGL) > limit {
		return fmt.Errorf("loopback: RDMA READ into %d elements, limit %d", len(wr.SGL), limit)
	}
	inline := wr.Flags&rdmatransport.FlagInline != 0
	if inline && length(wr.SGL) > q.cq.device.attrs.MaxInline {
		return errors.New("loopback: too long for an inline send")
	}
	return nil
}

func (q *queuePair) take(wr *rdmatransport.SendWR) {
	sgl, dst := q.send.add(wr.SGL)
	q.taken++
	*dst = *wr
	dst.SGL = sgl
	if wr.Flags&rdmatransport.FlagInline != 0 {
		dst.SGL = append(sgl[:0], rdmatransport.SGE{Buf: q.copied(sgl)})
	}
	if wr.Op == rdmatransport.OpBindWindow && q.state == qpConnected && !q.bind(wr) {
		dst.Window = nil // tells execute
	}
	if wr.Op == rdmatransport.OpInvalidate && q.window(wr.InvalidateKey) == nil {
		dst.InvalidateKey = 0 // likewise: binds that are posted later take effect sooner
	}
}

// copied returns a copy of inline data, in the buffer of the newest entry.
func (q *queuePair) copied(sgl []rdmatransport.SGE) []byte {
	size := q.cq.device.attrs.MaxInline
	if q.inline == nil {
		q.inline = make([]byte, q.cfg.MaxSend*size)
	}
	at := (q.send.first + q.send.pending - 1) % q.cfg.MaxSend * size
	b := q.inline[at : at+length(sgl)]
	gather(b, sgl)
	return b
}

func (q *queuePair) Disconnect() {
	q.cq.device.net.mu.Lock()
	defer q.cq.device.net.mu.Unlock()
	q.end(rdmatransport.ErrDisconnected)
}

func (q *queuePair) Close() error {
	n := q.cq.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.state == qpClosed {
		return nil
	}
	q.end(rdmatransport.ErrDisconnected)
	q.state = qpClosed
	kept := q.cq.done[:0]
	for _, c := range q.cq.done {
		switch receive := c.Op == rdmatransport.OpRecv || c.Op == rdmatransport.OpRecvWriteImm; {
		case c.QPN != q.qpn:
			kept = append(kept, c)
		case receive && q.shared != nil:
			kept = append(kept, rdmatransport.Completion{ID: c.ID, QPN: c.QPN, Op: rdmatransport.OpRecv, Status: rdmatransport.StatusFlushed})
		}
	}
	q.cq.done = kept
	if q.shared != nil {
		q.shared.users = slices.DeleteFunc(q.shared.users, func(u *queuePair) bool { return u == q })
	}
	qps := q.cq.device.qps
	for i := range qps {
		if qps[i] == q {
			q.cq.device.qps = append(qps[:i], qps[i+1:]...)
			break
		}
	}
	return nil
}

func length(sgl []rdmatransport.SGE) int {
	n := 0
	for i := range sgl {
		n += len(sgl[i].Buf)
	}
	return n
}

// gather copies a scatter list's bytes to dst.
func gather(dst []byte, sgl []rdmatransport.SGE) {
	for i := range sgl {
		dst = dst[copy(dst, sgl[i].Buf):]
	}
}

// scatter copies src to a scatter list.
func scatter(sgl []rdmatransport.SGE, src []byte) {
	for i := range sgl {
		src = src[copy(sgl[i].Buf, src):]
	}
}

// transfer copies between scatter lists.
func transfer(dst, src []rdmatransport.SGE) {
	var d, at int
	for i := range src {
		for b := src[i].Buf; len(b) > 0; {
			if at == len(dst[d].Buf) {
				d, at = d+1, 0
				continue
			}
			n := copy(dst[d].Buf[at:], b)
			b, at = b[n:], at+n
		}
	}
}
