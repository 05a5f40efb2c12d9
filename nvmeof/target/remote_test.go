package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

var (
	targetAddr = netip.MustParseAddr("192.0.2.1")
	hostAddr   = netip.MustParseAddr("192.0.2.2")
)

// A provider opens the devices of a target and of a host that can reach each other.
type provider func(t *testing.T) (target, host rdmatransport.Device)

func overLoopback(t *testing.T) (target, host rdmatransport.Device) {
	n := rdmatest.NewLoopback()
	open := func(a netip.Addr) rdmatransport.Device {
		d, err := n.Open(a, rdmatest.Attrs())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return open(targetAddr), open(hostAddr)
}

// overSoftroce returns an in-memory network with faults in both directions and path MTU 1024.
func overSoftroce(seed uint64, faults softroce.Faults) provider {
	return func(t *testing.T) (target, host rdmatransport.Device) {
		n := softroce.NewNetwork(seed)
		n.Faults = func(netip.Addr, netip.Addr) softroce.Faults { return faults }
		open := func(a netip.Addr) rdmatransport.Device {
			d, err := softroce.Open(softroce.Config{Addr: a, Shards: 2, Network: n})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return open(targetAddr), open(hostAddr)
	}
}

// A remote is a target and a host, connected by a provider.
type remote struct {
	t      *testing.T
	target *Target
	sub    *Subsystem
	store  *memory.Store
	served backend.Store // store, or another one in its place
	logs   *observer.ObservedLogs
	devs   [2]rdmatransport.Device
	addr   netip.AddrPort

	device rdmatransport.Device // the host's
	domain rdmatransport.Domain
	shard  *shard.Shard
	memory *fabric.Memory
	queues []*remoteQueue
}

const remoteMemory = 8 << 20

func newRemote(t *testing.T, open provider, change ...func(*Config)) *remote {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	r := &remote{t: t, logs: logs, addr: netip.AddrPortFrom(targetAddr, 4420)}
	r.devs[0], r.devs[1] = open(t)
	r.device = r.devs[1]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	cfg := Config{Device: r.devs[0], Log: zap.New(core), Polling: nvmeof.PollNever, Shards: 2, Arena: 16 << 20}
	for _, f := range change {
		f(&cfg)
	}
	r.target, err = New(cfg)
	must(err)
	r.sub, err = r.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
	must(err)
	r.sub.AllowHost(testHostNQN)
	r.store, err = memory.New(memory.Config{Size: 16 << 20})
	must(err)
	r.served = r.store
	_, err = r.sub.AddNamespace(NamespaceConfig{Store: r.served})
	must(err)
	_, err = r.target.Listen(r.addr)
	must(err)
	r.openHost(must)
	return r
}

func (r *remote) openHost(must func(error)) {
	r.t.Helper()
	cq, err := r.device.NewCompletionQueue(rdmatransport.CQConfig{})
	must(err)
	r.shard, err = shard.New(shard.Config{CQ: cq, Polling: nvmeof.PollNever, Arena: remoteMemory})
	must(err)
	r.domain, err = r.device.NewDomain()
	must(err)
	r.memory, err = fabric.RegisterMemory(r.domain, r.shard.Arena().Bytes(), false)
	must(err)
	r.shard.Start()
}

// close closes both sides and checks that nothing is left.
func (r *remote) close() {
	r.t.Helper()
	for _, q := range r.queues {
		q.close()
	}
	errs := []error{
		r.target.Close(), r.memory.Close(), r.domain.Close(), r.shard.Close(),
		r.devs[1].Close(), r.devs[0].Close(), r.store.Close(),
	}
	if err := errors.Join(errs...); err != nil {
		r.t.Error(err)
	}
	if n := r.target.memory.mapped(); n != 0 {
		r.t.Errorf("%d bytes of queue memory are still counted", n)
	}
	if n := len(r.sub.controllers); n != 0 {
		r.t.Errorf("%d controllers are left", n)
	}
	for i, w := range r.target.first.workers {
		if n := w.shard.Arena().Free(); n != r.target.cfg.Arena {
			r.t.Errorf("shard %d: %d of %d bytes of buffers came back", i, n, r.target.cfg.Arena)
		}
	}
}

// A remoteQueue is a host's queue over a network.
type remoteQueue struct {
	r     *remote
	hq    *fabric.HostQueue
	ended chan struct{}
}

// dial establishes the RDMA connection of a queue.
func (r *remote) dial(qid capsule.QID, depth int) *remoteQueue {
	r.t.Helper()
	q, err := r.tryDial(qid, depth)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// tryDial is dial that the target may refuse.
func (r *remote) tryDial(qid capsule.QID, depth int) (*remoteQueue, error) {
	r.t.Helper()
	q := &remoteQueue{r: r, ended: make(chan struct{})}
	var err error
	q.hq, err = fabric.NewHost(fabric.HostConfig{
		Shard: r.shard, Domain: r.domain, Attrs: r.device.Attrs(), Depth: depth, InCapsule: 4096,
		Ended: func(error) { close(q.ended) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var qp rdmatransport.QueuePair
	if cerr := r.shard.Call(func() { qp, err = q.hq.Open() }); cerr != nil || err != nil {
		r.t.Fatal(cerr, err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	_, err = r.device.Connect(ctx, qp, r.addr, rdmatransport.ConnParams{
		PrivateData: q.hq.RequestData(qid, 0), ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7,
	})
	if err != nil {
		r.call(q.hq.Disconnect)
		<-q.ended
		return nil, errors.Join(err, q.hq.Free())
	}
	r.call(q.hq.Established)
	r.queues = append(r.queues, q)
	return q, nil
}

func (r *remote) call(f func()) {
	r.t.Helper()
	if err := r.shard.Call(f); err != nil {
		r.t.Fatal(err)
	}
}

func (q *remoteQueue) close() {
	q.r.call(q.hq.Disconnect)
	<-q.ended
	if err := q.hq.Free(); err != nil {
		q.r.t.Error(err)
	}
}

// start sends a command with data at an offset of the host's memory.
func (q *remoteQueue) start(cmd capsule.Command, offset, length int) chan *fabric.Request {
	done := make(chan *fabric.Request, 1)
	req := &fabric.Request{
		Command: cmd, Memory: q.r.memory, Offset: offset, Length: length, Done: func(r *fabric.Request) { done <- r },
	}
	q.r.call(func() {
		if err := q.hq.Submit(req); err != nil {
			req.Err = err
			done <- req
		}
	})
	return done
}

// do sends a command and checks that it succeeds.
func (q *remoteQueue) do(cmd capsule.Command, offset, length int) capsule.Completion {
	q.r.t.Helper()
	req := <-q.start(cmd, offset, length)
	if req.Err != nil || !req.Completion.Status.OK() {
		q.r.t.Fatalf("opcode %#x: %v, %v", cmd.Opcode, req.Completion.Status, req.Err)
	}
	return req.Completion
}

func (q *remoteQueue) bytes(offset, length int) []byte { return q.r.memory.Bytes()[offset:][:length] }

// connect sends the Connect command.
func (q *remoteQueue) connect(qid capsule.QID, cntlid capsule.ControllerID, depth int) capsule.ControllerID {
	q.r.t.Helper()
	d := connectData()
	d.CNTLID = cntlid
	d.Encode(q.bytes(0, capsule.ConnectDataSize))
	cmd := capsule.FabricsCommand(capsule.FabricsConnect)
	capsule.Connect{QID: qid, SQSIZE: uint16(depth - 1)}.Put(&cmd)
	c := q.do(cmd, 0, capsule.ConnectDataSize)
	return capsule.ParseConnectResponse(c.Result).CNTLID
}

// controller connects an admin queue and n I/O queues.
func (r *remote) controller(n int) (admin *remoteQueue, io []*remoteQueue) {
	r.t.Helper()
	admin = r.dial(0, 32)
	id := admin.connect(0, capsule.ControllerIDDynamic, 32)
	cmd := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(linuxCC.WithEnable(true))}.Put(&cmd)
	admin.do(cmd, 0, 0)
	for id := capsule.NSID(1); id <= 2; id++ {
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), NSID: id}
		capsule.Identify{CNS: capsule.CNSNamespace}.Put(&cmd)
		admin.do(cmd, 0, capsule.IdentifySize)
	}
	for i := range n {
		q := r.dial(capsule.QID(i+1), 128)
		q.connect(capsule.QID(i+1), id, 128)
		io = append(io, q)
	}
	return admin, io
}

func rwCommand(op capsule.IOOpcode, slba capsule.LBA, blocks uint32) capsule.Command {
	c := capsule.Command{Opcode: capsule.Opcode(op), NSID: 1}
	capsule.ReadWrite{SLBA: slba, Blocks: blocks}.Put(&c)
	return c
}

// lossy is a network with many faults.
var lossy = softroce.Faults{
	Loss: 0.02, Duplicate: 0.02, Corrupt: 0.01, Reorder: 0.05,
	Delay: 50 * time.Microsecond, Jitter: 20 * time.Microsecond,
}

func providers() map[string]provider {
	out := map[string]provider{"loopback": overLoopback, "softroce": overSoftroce(1, softroce.Faults{})}
	for seed := range uint64(2) {
		out[fmt.Sprint("softroce, lossy, seed ", seed)] = overSoftroce(seed, lossy)
	}
	return out
}
