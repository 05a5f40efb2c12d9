package badinput

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	nvmehost "github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A host is a well-behaved host with an admin queue and an I/O queue. The second shard of its device is for another
// application, see owner.
type host struct {
	l          *lab
	device     *softroce.Device
	host       *nvmehost.Host
	controller *nvmehost.Controller
	namespace  *nvmehost.Namespace
	loop       *loop
	owner      *owner
	round      byte
}

func newHost(l *lab) *host {
	l.t.Helper()
	h := &host{l: l, device: l.open(hostAddr, 2)}
	var err error
	h.host, err = nvmehost.New(nvmehost.Config{Device: h.device, Shards: 1, Polling: nvmeof.PollNever})
	l.must(err)
	h.loop, err = startLoop(h.device)
	l.must(err)
	h.controller = h.connect(1)
	h.namespace, err = h.controller.Namespace(context.Background(), 1)
	l.must(err)
	h.work()
	return h
}

// connect connects a controller with the given number of I/O queues; negative: none.
func (h *host) connect(queues int) *nvmehost.Controller {
	h.l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // virtual time
	defer cancel()
	c, err := h.host.Connect(ctx, nvmehost.Options{
		Traddr: targetAddr, NQN: subNQN, HostNQN: hostNQN, HostID: hostID, NrIOQueues: queues, QueueSize: 128, BounceMemory: 2 << 20,
	})
	h.l.must(err)
	return c
}

// try sends a command for the namespace and requires a response.
func (h *host) try(cmd capsule.Command, length int) capsule.Completion {
	h.l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // virtual time
	defer cancel()
	c, err := h.namespace.Execute(ctx, cmd, make([]byte, length))
	var status *nvmehost.StatusError
	if err != nil && !errors.As(err, &status) {
		h.l.t.Fatalf("the honest host's opcode %#x: %v", cmd.Opcode, err)
	}
	return c
}

// work writes through the queue, reads the data back and compares it.
func (h *host) work() {
	h.l.t.Helper()
	const size, off = 16 * 4096, 8 * 4096
	h.round++
	want := bytes.Repeat([]byte{h.round, 3, 1, 4, 1, 5, 9}, size/7+1)[:size]
	_, err := h.namespace.WriteAt(want, off)
	h.l.must(err)
	got := make([]byte, size)
	_, err = h.namespace.ReadAt(got, off)
	h.l.must(err)
	if !bytes.Equal(got, want) {
		h.l.t.Error("the honest host reads back something else than it wrote")
	}
}

// again creates another association and ends it.
func (h *host) again() {
	h.l.t.Helper()
	h.l.must(h.connect(-1).Disconnect(context.Background()))
}

func (h *host) close() {
	h.l.t.Helper()
	var err error
	if h.owner != nil {
		err = h.owner.close()
	}
	if err := errors.Join(err, h.controller.Disconnect(context.Background()), h.host.Close(), h.loop.close(), h.device.Close()); err != nil {
		h.l.t.Error(err)
	}
}

func connectData(id capsule.ControllerID) *capsule.ConnectData {
	return &capsule.ConnectData{
		HostID: hostID, CNTLID: id,
		SubNQN: capsule.MakeNQNField(subNQN), HostNQN: capsule.MakeNQNField(hostNQN),
	}
}

func connectCommand(qid capsule.QID, depth int) capsule.Command {
	c := capsule.FabricsCommand(capsule.FabricsConnect)
	capsule.Connect{QID: qid, SQSIZE: uint16(depth - 1)}.Put(&c)
	return c
}
