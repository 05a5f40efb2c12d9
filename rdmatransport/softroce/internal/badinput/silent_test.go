package badinput

import (
	"bytes"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// queue connects a queue with the given attributes.
func (g *gremlin) queue(qid capsule.QID, id capsule.ControllerID, attrs uint8) (*conn, capsule.ControllerID) {
	t := g.l.t
	t.Helper()
	c, r := g.open()
	nvme(r, func(d *capsule.RequestData) { d.QID = qid })
	c.establish(r)
	cmd := capsule.FabricsCommand(capsule.FabricsConnect)
	capsule.Connect{QID: qid, SQSIZE: 31, CATTR: attrs}.Put(&cmd)
	cmd.SGL = capsule.InCapsuleSGL(0, capsule.ConnectDataSize)
	data := make([]byte, capsule.ConnectDataSize)
	connectData(id).Encode(data)
	g.send(c.capsule(cmd, data)...)
	cqe, ok := c.responses()[c.cid]
	if !ok || !cqe.Status.OK() {
		t.Fatalf("Connect of queue %d answered %v with %v", qid, ok, cqe.Status)
	}
	return c, capsule.ParseConnectResponse(cqe.Result).CNTLID
}

// ioQueue creates an association with one I/O queue of 32 entries.
func (g *gremlin) ioQueue(attrs uint8) (admin, io *conn) {
	g.l.t.Helper()
	admin, id := g.queue(0, capsule.ControllerIDDynamic, attrs)
	cmd := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(capsule.CC(0x460060).WithEnable(true))}.Put(&cmd)
	admin.do(admin.capsule(cmd, nil)...)
	cmd = capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), NSID: 1, Flags: capsule.FlagsSGL,
		SGL: capsule.KeyedSGL(1<<46, capsule.IdentifySize, 0x1234, false)}
	capsule.Identify{CNS: capsule.CNSNamespace}.Put(&cmd)
	admin.do(admin.capsule(cmd, nil)...)
	io, _ = g.queue(1, id, attrs)
	return admin, io
}

// transfer returns a Read or Write of the first block with a key of the gremlin. There is no memory behind it: the
// test decides what to answer.
func (c *conn) transfer(op capsule.IOOpcode) []wire.Packet {
	cmd := capsule.Command{Opcode: capsule.Opcode(op), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(1<<46, 4096, 0x1234, false)}
	capsule.ReadWrite{Blocks: 1}.Put(&cmd)
	return c.capsule(cmd, nil)
}

// TestPeerGoesSilent is row 71 on the wire: the peer becomes silent or ends the connection while the target waits for
// an RDMA READ response, or for the acknowledgement of an RDMA WRITE or of the response itself. The resources are
// released, and a write whose data did not arrive leaves the store unchanged.
func TestPeerGoesSilent(t *testing.T) {
	flush := func(c *conn) []wire.Packet {
		return c.capsule(capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(0, 0, 0, false)}, nil)
	}
	read := func(c *conn) []wire.Packet { return c.transfer(capsule.IORead) }
	write := func(c *conn) []wire.Packet { return c.transfer(capsule.IOWrite) }
	var attacks []attack
	for _, stage := range []struct {
		name string
		cmd  func(c *conn) []wire.Packet
		sees func(p *wire.Packet) bool
	}{
		{"RDMA READ", write, func(p *wire.Packet) bool { return p.Opcode == wire.RCReadRequest }},
		{"RDMA WRITE", read, func(p *wire.Packet) bool { return p.Opcode == wire.RCWriteFirst }},
		{"SEND", flush, func(p *wire.Packet) bool { return p.Opcode.Flags()&wire.FlagSend != 0 }},
	} {
		for _, end := range []struct {
			name string
			act  func(c *conn)
		}{
			{"silent", func(*conn) {}},
			{"DREQ", func(c *conn) { c.gone = true; c.g.say(c.dreq()) }},
			{"DREQ of the other queue", func(c *conn) {
				other := c.g.conns[0]
				other.gone = true
				c.g.say(other.dreq())
			}},
		} {
			attacks = append(attacks, attack{row: "71 " + end.name + " during " + stage.name, run: func(l *lab) {
				before := bytes.Clone(l.store.Memory())
				_, io := l.gremlin.ioQueue(0)
				io.mute = true
				l.gremlin.send(stage.cmd(io)...)
				l.gremlin.settle()
				seen := false
				for i := range io.got {
					seen = seen || stage.sees(&io.got[i])
				}
				if !seen {
					l.t.Errorf("no %s came: %+v", stage.name, io.got)
				}
				io.got = nil
				end.act(io)
				l.gremlin.settle()
				if !bytes.Equal(before, l.store.Memory()) {
					l.t.Error("the store changed")
				}
			}})
		}
	}
	test(t, attacks)
}

// TestPeerPutsOff: the peer answers the RDMA READ for its write with RNR NAKs every time, having requested unlimited
// retries. Pausing the namespace, which holds all other hosts' commands, does not wait for that peer.
func TestPeerPutsOff(t *testing.T) {
	test(t, []attack{{row: "71 puts off the RDMA READ", counter: func(s *softroce.Stats) uint64 { return s.RC.RNRNAKsGot }, run: func(l *lab) {
		_, io := l.gremlin.ioQueue(0)
		io.mute = true
		putOff := func(d time.Duration) {
			for began := time.Now(); time.Since(began) < d; l.gremlin.settle() {
				for i := range io.got {
					if io.got[i].Opcode == wire.RCReadRequest {
						l.gremlin.send(io.ack(io.got[i].PSN, wire.SyndromeRNR(0)))
					}
				}
				io.got = nil
			}
		}
		l.gremlin.send(io.transfer(capsule.IOWrite)...)
		putOff(time.Minute)
		if n := len(l.target.Controllers()); n != 2 {
			t.Fatalf("%d controllers: this peer is not let wait any more", n)
		}
		ns := l.target.Subsystems()[0].Namespaces()[0]
		paused := make(chan error, 1)
		go func() { paused <- ns.Pause(10 * time.Second) }() // ends after 10 s at the latest
		putOff(9 * time.Second)
		select {
		case err := <-paused:
			l.must(err)
			l.must(ns.Resume())
		default:
			l.t.Error("the namespace stays closed for all")
			l.must(<-paused)
		}
		io.gone = true
	}}})
}
