package rdmatest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var connectTests = []testCase{
	{"PrivateData", testPrivateData},
	{"Depths", testDepths},
	{"Reject", testReject},
	{"NobodyListens", testNobodyListens},
	{"Unreachable", testUnreachable},
	{"AcceptEndsWithContext", testAcceptContext},
	{"ListenerClose", testListenerClose},
	{"AddressInUse", testAddressInUse},
	{"Disconnect", testDisconnect},
	{"CloseEndsPeer", testCloseEndsPeer},
	{"DeviceClose", testDeviceClose},
}

func testPrivateData(p *pair) {
	l := p.listen()
	defer l.Close()
	a, b := p.newSide(p.a, 0, "active", connConfig{}), p.newSide(p.b, 0, "passive", connConfig{})
	ask, reply := bytes.Repeat([]byte{0xa5}, rdmatransport.MaxRequestData), bytes.Repeat([]byte{0x5a}, rdmatransport.MaxReplyData)

	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	seen := make(chan []byte, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			seen <- nil
			return
		}
		seen <- req.PrivateData()
		if req.LocalAddr() != l.Addr() {
			p.t.Errorf("request's local address %v, want %v", req.LocalAddr(), l.Addr())
		}
		b.loop.do(func() { err = req.Accept(b.qp, rdmatransport.ConnParams{PrivateData: reply}) })
		if err != nil {
			p.t.Errorf("Accept: %v", err)
		}
	}()
	got, err := p.Active.Connect(ctx, a.qp, l.Addr(), rdmatransport.ConnParams{PrivateData: ask, RetryCount: 7})
	if err != nil {
		p.t.Fatalf("Connect: %v", err)
	}
	if g := <-seen; !bytes.Equal(g, ask) {
		p.t.Errorf("passive side read private data %x, want %x", g, ask)
	}
	if !bytes.Equal(got.PrivateData, reply) {
		p.t.Errorf("active side read private data %x, want %x", got.PrivateData, reply)
	}
	if a.qp.RemoteAddr() != l.Addr() {
		p.t.Errorf("active side's remote address %v, want %v", a.qp.RemoteAddr(), l.Addr())
	}
	if a.qp.LocalAddr() != b.qp.RemoteAddr() {
		p.t.Errorf("active side is %v, but %v to its peer", a.qp.LocalAddr(), b.qp.RemoteAddr())
	}
}

func testDepths(p *pair) {
	l := p.listen()
	defer l.Close()
	a, b := p.newSide(p.a, 0, "active", connConfig{}), p.newSide(p.b, 0, "passive", connConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err == nil {
			if req.InitiatorDepth() != 5 || req.ResponderResources() != 3 {
				p.t.Errorf("request offers depth %d and asks for %d, want 5 and 3", req.InitiatorDepth(), req.ResponderResources())
			}
			b.loop.do(func() {
				err = req.Accept(b.qp, rdmatransport.ConnParams{InitiatorDepth: 4, ResponderResources: 2})
			})
		}
		done <- err
	}()
	reply, err := p.Active.Connect(ctx, a.qp, l.Addr(), rdmatransport.ConnParams{InitiatorDepth: 3, ResponderResources: 5, RetryCount: 7})
	if err2 := <-done; err != nil || err2 != nil {
		p.t.Fatalf("Connect: %v, Accept: %v", err, err2)
	}
	if reply.InitiatorDepth != 2 || reply.ResponderResources != 4 {
		p.t.Errorf("reply grants %d reads and takes %d, want 2 and 4", reply.InitiatorDepth, reply.ResponderResources)
	}
	a.loop.do(func() {
		if got := a.qp.ReadDepth(); got != 2 {
			p.t.Errorf("active side's read depth %d, want 2", got)
		}
	})
	b.loop.do(func() {
		if got := b.qp.ReadDepth(); got != 4 {
			p.t.Errorf("passive side's read depth %d, want 4", got)
		}
	})
}

func testReject(p *pair) {
	l := p.listen()
	defer l.Close()
	a := p.newSide(p.a, 0, "active", connConfig{})
	data := []byte{0, 0, 6, 0}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err == nil {
			err = req.Reject(data)
		}
		done <- err
	}()
	_, err := p.Active.Connect(ctx, a.qp, l.Addr(), rdmatransport.ConnParams{RetryCount: 7})
	if err2 := <-done; err2 != nil {
		p.t.Fatalf("Reject: %v", err2)
	}
	var reject *rdmatransport.RejectError
	if !errors.As(err, &reject) || reject.Reason != rdmatransport.RejectConsumer {
		p.t.Fatalf("Connect: %v, want a rejection by the consumer", err)
	}
	if len(reject.PrivateData) < len(data) || !bytes.Equal(reject.PrivateData[:len(data)], data) {
		p.t.Errorf("private data of the rejection %x, want %x", reject.PrivateData, data)
	}
}

func testNobodyListens(p *pair) {
	l := p.listen()
	addr := l.Addr()
	l.Close()
	a := p.newSide(p.a, 0, "active", connConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	_, err := p.Active.Connect(ctx, a.qp, addr, rdmatransport.ConnParams{RetryCount: 7})
	var reject *rdmatransport.RejectError
	if !errors.As(err, &reject) || reject.Reason != rdmatransport.RejectInvalidServiceID {
		p.t.Fatalf("Connect: %v, want rejection %v", err, rdmatransport.RejectInvalidServiceID)
	}
}

func testUnreachable(p *pair) {
	a := p.newSide(p.a, 0, "active", connConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := p.Active.Connect(ctx, a.qp, p.Unreachable, rdmatransport.ConnParams{RetryCount: 7})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rdmatransport.ErrUnreachable) {
		p.t.Fatalf("Connect: %v, want no answer", err)
	}
}

func testAcceptContext(p *pair) {
	l := p.listen()
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		p.t.Fatalf("Accept: %v, want the context's end", err)
	}
}

func testListenerClose(p *pair) {
	l := p.listen()
	addr := l.Addr()
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(context.Background())
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		p.t.Fatalf("Close: %v", err)
	}
	if err := <-accepted; !errors.Is(err, rdmatransport.ErrClosed) {
		p.t.Errorf("Accept of a closed listener: %v, want %v", err, rdmatransport.ErrClosed)
	}
	again, err := p.Passive.Listen(addr)
	if err != nil {
		p.t.Fatalf("listening again at %v: %v", addr, err)
	}
	// A request that nobody answers is refused when its listener closes.
	a := p.newSide(p.a, 0, "active", connConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		_, err := p.Active.Connect(ctx, a.qp, addr, rdmatransport.ConnParams{RetryCount: 7})
		refused <- err
	}()
	if _, err := again.Accept(ctx); err != nil {
		p.t.Fatalf("Accept: %v", err)
	}
	b := p.newSide(p.a, 0, "active 2", connConfig{})
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Active.Connect(ctx, b.qp, addr, rdmatransport.ConnParams{RetryCount: 7})
		waiting <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that the second request waits in the queue
	again.Close()
	var reject *rdmatransport.RejectError
	if err := <-waiting; !errors.As(err, &reject) {
		p.t.Errorf("waiting request when the listener closed: %v, want a rejection", err)
	}
	cancel() // the first is in the hands of nobody
	<-refused
}

func testAddressInUse(p *pair) {
	l := p.listen()
	defer l.Close()
	if second, err := p.Passive.Listen(l.Addr()); err == nil {
		second.Close()
		p.t.Fatalf("two listeners at %v", l.Addr())
	}
}

func testDisconnect(p *pair) {
	a, b := p.connect(connConfig{recvs: 2, recvSize: 64})
	a.loop.do(func() {
		if err := a.qp.Err(); err != nil {
			p.t.Errorf("connected queue pair has error %v", err)
		}
		a.qp.Disconnect()
		a.qp.Disconnect()
	})
	for _, s := range []*side{a, b} {
		s.wantFlushed(1000, 1001)
		if err := s.wantErr(); !errors.Is(err, rdmatransport.ErrDisconnected) {
			p.t.Errorf("%s: error %v, want %v", s.name, err, rdmatransport.ErrDisconnected)
		}
		s.wantIdle(20 * time.Millisecond)
	}
}

func testCloseEndsPeer(p *pair) {
	a, b := p.connect(connConfig{recvs: 2, recvSize: 64})
	a.loop.do(func() {
		if err := a.qp.Close(); err != nil {
			p.t.Errorf("Close: %v", err)
		}
	})
	b.wantFlushed(1000, 1001)
	if err := b.wantErr(); !errors.Is(err, rdmatransport.ErrDisconnected) {
		p.t.Errorf("peer's error %v, want %v", err, rdmatransport.ErrDisconnected)
	}
	a.wantIdle(20 * time.Millisecond) // completions of a closed queue pair are dropped
}

func testDeviceClose(p *pair) {
	if p.lossy {
		p.t.Skip("the one disconnect request of a closing device may be lost")
	}
	_, b := p.connect(connConfig{recvs: 1, recvSize: 64})
	domain, err := p.Active.NewDomain()
	if err != nil {
		p.t.Fatal(err)
	}
	p.a.close() // no loop polls while the device goes
	p.a.loops = nil
	if err := p.Active.Close(); err != nil {
		p.t.Fatalf("Close: %v", err)
	}
	b.wantFlushed(1000)
	if err := b.wantErr(); !errors.Is(err, rdmatransport.ErrDisconnected) {
		p.t.Errorf("peer's error %v, want %v", err, rdmatransport.ErrDisconnected)
	}
	listened := make(chan error, 1)
	go func() {
		_, err := p.Active.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		listened <- err
	}()
	select {
	case err := <-listened:
		if !errors.Is(err, rdmatransport.ErrClosed) {
			p.t.Errorf("Listen of a closed device: %v, want %v", err, rdmatransport.ErrClosed)
		}
	case <-time.After(timeLimit):
		p.t.Error("Listen of a closed device does not return")
	}
	_, err = p.Active.NewDomain()
	p.wantClosed("a domain of a closed device", err)
	_, err = p.Active.NewCompletionQueue(rdmatransport.CQConfig{})
	p.wantClosed("a completion queue of a closed device", err)
	_, err = domain.Register(make([]byte, 4096), allAccess)
	p.wantClosed("memory of a closed device's domain", err)
	if err := domain.Close(); err != nil {
		p.t.Errorf("closing a domain of a closed device: %v", err)
	}
}
