package rdmatest

import (
	"context"
	"errors"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

type listener struct {
	net     *Loopback
	addr    netip.AddrPort
	arrived chan *request
	closed  chan struct{}
}

type request struct {
	listener *listener
	params   rdmatransport.ConnParams
	active   *queuePair
	local    netip.AddrPort // the passive side's
	remote   netip.AddrPort
	attrs    rdmatransport.Attrs // the passive side's
	settled  bool
	answer   chan answer
}

type answer struct {
	reply rdmatransport.ConnReply
	err   error
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

func (l *listener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	select {
	case r := <-l.arrived:
		return r, nil
	default:
	}
	select {
	case r := <-l.arrived:
		return r, nil
	case <-l.closed:
		return nil, rdmatransport.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if l.net.listeners[l.addr] != l {
		return nil
	}
	delete(l.net.listeners, l.addr)
	close(l.closed)
	for {
		select {
		case r := <-l.arrived:
			r.settle(answer{err: &rdmatransport.RejectError{Reason: rdmatransport.RejectInvalidServiceID}})
		default:
			return nil
		}
	}
}

func padded(b []byte, n int) []byte {
	return append(make([]byte, 0, n), append(b, make([]byte, n-len(b))...)...)
}

func (d *device) Connect(ctx context.Context, qp rdmatransport.QueuePair, to netip.AddrPort, p rdmatransport.ConnParams) (rdmatransport.ConnReply, error) {
	q, ok := qp.(*queuePair)
	if !ok || q.cq.device != d {
		return rdmatransport.ConnReply{}, errors.New("loopback: queue pair of another device")
	}
	if len(p.PrivateData) > rdmatransport.MaxRequestData {
		return rdmatransport.ConnReply{}, errors.New("loopback: private data is too long")
	}
	r, err := d.request(q, to, p)
	if err != nil {
		return rdmatransport.ConnReply{}, err
	}
	if r == nil { // no listener
		<-ctx.Done()
		return rdmatransport.ConnReply{}, errors.Join(rdmatransport.ErrUnreachable, ctx.Err())
	}
	select {
	case a := <-r.answer:
		return a.reply, a.err
	case <-ctx.Done():
		d.net.mu.Lock()
		defer d.net.mu.Unlock()
		r.settled = true
		return rdmatransport.ConnReply{}, ctx.Err()
	}
}

func (d *device) request(q *queuePair, to netip.AddrPort, p rdmatransport.ConnParams) (*request, error) {
	n := d.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.devices[to.Addr()] == nil {
		return nil, nil
	}
	l, attrs := n.listeners[to], n.devices[to.Addr()].attrs
	if l == nil {
		return nil, &rdmatransport.RejectError{Reason: rdmatransport.RejectInvalidServiceID}
	}
	n.lastPort++
	q.local, q.remoteAddr = netip.AddrPortFrom(d.addr, n.lastPort), to
	p.PrivateData = padded(p.PrivateData, rdmatransport.MaxRequestData)
	r := &request{listener: l, params: p, active: q, attrs: attrs, local: to, remote: q.local, answer: make(chan answer, 1)}
	select {
	case l.arrived <- r:
		return r, nil
	default:
		return nil, &rdmatransport.RejectError{Reason: rdmatransport.RejectNoResources}
	}
}

func (r *request) PrivateData() []byte        { return r.params.PrivateData }
func (r *request) LocalAddr() netip.AddrPort  { return r.local }
func (r *request) RemoteAddr() netip.AddrPort { return r.remote }

func (r *request) InitiatorDepth() int {
	return min(r.params.ResponderResources, r.attrs.MaxReadsOut)
}

func (r *request) ResponderResources() int {
	return min(r.params.InitiatorDepth, r.attrs.MaxReadsIn)
}

func (r *request) settle(a answer) error {
	if r.settled {
		return rdmatransport.ErrDisconnected
	}
	r.settled = true
	r.answer <- a
	return nil
}

func (r *request) Reject(private []byte) error {
	r.listener.net.mu.Lock()
	defer r.listener.net.mu.Unlock()
	if len(private) > rdmatransport.MaxRejectData {
		return errors.New("loopback: private data is too long")
	}
	return r.settle(answer{err: &rdmatransport.RejectError{
		Reason: rdmatransport.RejectConsumer, PrivateData: padded(private, rdmatransport.MaxRejectData),
	}})
}

func (r *request) Accept(qp rdmatransport.QueuePair, p rdmatransport.ConnParams) error {
	r.listener.net.mu.Lock()
	defer r.listener.net.mu.Unlock()
	q, ok := qp.(*queuePair)
	if !ok || q.state != qpInitial {
		return errors.New("loopback: queue pair cannot accept")
	}
	if len(p.PrivateData) > rdmatransport.MaxReplyData {
		return errors.New("loopback: private data is too long")
	}
	a := r.active
	if a.state != qpInitial || r.settled {
		return rdmatransport.ErrDisconnected
	}
	q.peer, a.peer = a, q
	q.state, a.state = qpConnected, qpConnected
	q.local, q.remoteAddr = r.local, r.remote
	q.readsOut = min(r.params.ResponderResources, p.InitiatorDepth)
	q.readsIn = min(r.params.InitiatorDepth, p.ResponderResources)
	a.readsOut, a.readsIn = q.readsIn, q.readsOut
	return r.settle(answer{reply: rdmatransport.ConnReply{
		PrivateData:    padded(p.PrivateData, rdmatransport.MaxReplyData),
		InitiatorDepth: a.readsOut, ResponderResources: a.readsIn,
	}})
}
