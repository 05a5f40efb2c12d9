package badinput

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const hostMemory = 2 << 20

// A host is an honest host with an admin queue and an I/O queue.
type host struct {
	l         *lab
	device    *softroce.Device
	shard     *shard.Shard
	domain    rdmatransport.Domain
	memory    *fabric.Memory
	admin, io *hostQueue
	owner     *owner
	round     byte
}

type hostQueue struct {
	h     *host
	queue *fabric.HostQueue
	ended chan struct{}
}

func newHost(l *lab) *host {
	l.t.Helper()
	h := &host{l: l, device: l.open(hostAddr, 1)}
	cq, err := h.device.NewCompletionQueue(rdmatransport.CQConfig{})
	l.must(err)
	h.shard, err = shard.New(shard.Config{CQ: cq, Polling: shard.PollNever, Arena: hostMemory})
	l.must(err)
	h.domain, err = h.device.NewDomain()
	l.must(err)
	h.memory, err = fabric.RegisterMemory(h.domain, h.shard.Arena().Bytes(), false)
	l.must(err)
	h.shard.Start()
	var id capsule.ControllerID
	h.admin, id = h.connect(0, capsule.ControllerIDDynamic, 32)
	cmd := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(capsule.CC(0x460060).WithEnable(true))}.Put(&cmd)
	h.admin.do(cmd, 0)
	h.io, _ = h.connect(1, id, 128)
	h.work()
	return h
}

func (h *host) call(f func()) {
	h.l.t.Helper()
	h.l.must(h.shard.Call(f))
}

// connect makes the connection of a queue and sends its Connect command.
func (h *host) connect(qid capsule.QID, id capsule.ControllerID, depth int) (*hostQueue, capsule.ControllerID) {
	t := h.l.t
	t.Helper()
	q := &hostQueue{h: h, ended: make(chan struct{})}
	var err error
	q.queue, err = fabric.NewHost(fabric.HostConfig{
		Shard: h.shard, Domain: h.domain, Attrs: h.device.Attrs(), Depth: depth, InCapsule: 4096,
		Ended: func(error) { close(q.ended) },
	})
	h.l.must(err)
	var qp rdmatransport.QueuePair
	h.call(func() { qp, err = q.queue.Open() })
	h.l.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = h.device.Connect(ctx, qp, netip.AddrPortFrom(targetAddr, nvmePort), rdmatransport.ConnParams{
		PrivateData: q.queue.RequestData(qid, 0), ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7,
	})
	h.l.must(err)
	h.call(q.queue.Established)
	connectData(id).Encode(h.memory.Bytes())
	c := q.do(connectCommand(qid, depth), capsule.ConnectDataSize)
	return q, capsule.ParseConnectResponse(c.Result).CNTLID
}

// do sends a command with data at the start of memory and wants success.
func (q *hostQueue) do(cmd capsule.Command, length int) capsule.Completion {
	t := q.h.l.t
	t.Helper()
	c := q.try(cmd, length)
	if !c.Status.OK() {
		t.Fatalf("the honest host's opcode %#x: %v", cmd.Opcode, c.Status)
	}
	return c
}

// try sends a command with data at the start of memory and wants an answer.
func (q *hostQueue) try(cmd capsule.Command, length int) capsule.Completion {
	t := q.h.l.t
	t.Helper()
	done := make(chan *fabric.Request, 1)
	req := &fabric.Request{Command: cmd, Memory: q.h.memory, Length: length, Done: func(r *fabric.Request) { done <- r }}
	q.h.call(func() {
		if req.Err = q.queue.Submit(req); req.Err != nil {
			done <- req
		}
	})
	select {
	case <-done:
	case <-time.After(time.Minute): // of the bubble's clock
		t.Fatal("the honest host got no answer")
	}
	if req.Err != nil && req.Completion.Status.OK() {
		t.Fatalf("the honest host's opcode %#x: %v", cmd.Opcode, req.Err)
	}
	return req.Completion
}

func (q *hostQueue) close() {
	q.h.l.t.Helper()
	q.h.call(q.queue.Disconnect)
	<-q.ended
	q.h.l.must(q.queue.Free())
}

// work writes through the queue, reads back and compares.
func (h *host) work() {
	h.l.t.Helper()
	const blocks, size = 16, 16 * 4096
	h.round++
	want := bytes.Repeat([]byte{h.round, 3, 1, 4, 1, 5, 9}, size/7+1)[:size]
	rw := func(op capsule.IOOpcode) {
		h.l.t.Helper()
		c := capsule.Command{Opcode: capsule.Opcode(op), NSID: 1}
		capsule.ReadWrite{SLBA: 8, Blocks: blocks}.Put(&c)
		h.io.do(c, size)
	}
	copy(h.memory.Bytes(), want)
	rw(capsule.IOWrite)
	clear(h.memory.Bytes()[:size])
	rw(capsule.IORead)
	if !bytes.Equal(h.memory.Bytes()[:size], want) {
		h.l.t.Error("the honest host reads back something else than it wrote")
	}
}

// again makes a further association and ends it.
func (h *host) again() {
	h.l.t.Helper()
	q, _ := h.connect(0, capsule.ControllerIDDynamic, 32)
	q.close()
}

func (h *host) close() {
	h.l.t.Helper()
	h.io.close()
	h.admin.close()
	var err error
	if h.owner != nil {
		err = h.owner.close()
	}
	if err := errors.Join(err, h.memory.Close(), h.domain.Close(), h.shard.Close(), h.device.Close()); err != nil {
		h.l.t.Error(err)
	}
}

func connectData(id capsule.ControllerID) *capsule.ConnectData {
	return &capsule.ConnectData{
		HostID: capsule.HostID{1, 2, 3}, CNTLID: id,
		SubNQN: capsule.MakeNQNField(subNQN), HostNQN: capsule.MakeNQNField(hostNQN),
	}
}

func connectCommand(qid capsule.QID, depth int) capsule.Command {
	c := capsule.FabricsCommand(capsule.FabricsConnect)
	capsule.Connect{QID: qid, SQSIZE: uint16(depth - 1)}.Put(&c)
	return c
}
