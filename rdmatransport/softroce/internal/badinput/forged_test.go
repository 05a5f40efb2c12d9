package badinput

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

func contested(s *softroce.Stats) uint64 { return s.CM.Contested }

// TestForgedMessages sends requests and other messages with a forged source address. A sender that does not see the
// target's answers ends no connection of the host with that address. The queue pair numbers of Linux count up from
// 17, so they are easily guessed.
func TestForgedMessages(t *testing.T) {
	forged := func(row string, n counter, act func(f *gremlin, admin, io *conn)) attack {
		return attack{row: row, counter: n, run: func(l *lab) {
			admin, io := l.gremlin.ioQueue(0)
			f := forger(l, gremlinAddr)
			act(f, admin, io)
			l.gremlin.settle()
			for _, c := range []*conn{admin, io} {
				if c.gone {
					l.t.Fatal("the host's connection was ended")
				}
			}
			admin.alive()
			io.do(io.capsule(capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(0, 0, 0, false)}, nil)...)
		}}
	}
	test(t, []attack{
		forged("requests with a host's queue pairs", contested, func(f *gremlin, _, _ *conn) {
			for range 32 {
				_, r := f.open()
				f.say(r)
			}
		}),
		forged("the same again and again", contested, func(f *gremlin, admin, io *conn) {
			for range 200 {
				for _, c := range []*conn{admin, io} {
					_, r := f.open()
					r.QPN = c.qpn
					f.say(r)
				}
			}
		}),
		forged("a request with a host's communication ID", contested, func(f *gremlin, admin, _ *conn) {
			_, r := f.open()
			r.LocalID, r.QPN = admin.local, 0x5000
			f.say(r)
		}),
		forged("RTU with a guess at the communication ID", unknownID, func(f *gremlin, admin, _ *conn) {
			c, r := f.open()
			r.QPN = admin.qpn
			f.say(r)
			for i := range wire.CommID(1000) {
				f.say(&wire.RTU{LocalID: c.local, RemoteID: i})
			}
		}),
		forged("data for another queue pair in place of an RTU", nil, func(f *gremlin, admin, _ *conn) {
			_, r := f.open()
			r.QPN = admin.qpn
			f.say(r)
			var p wire.Packet
			for i := range rdmatransport.QPN(1000) {
				p = admin.next(wire.RCSendOnly, nil)
				p.DestQPN, admin.psn = 0x20000+i, p.PSN
				f.send(p)
			}
		}),
		forged("DREQ that knows all but the queue pair", malformed, func(f *gremlin, admin, _ *conn) {
			r := admin.dreq()
			r.RemoteQPN++
			f.say(r)
		}),
		forged("DREQ that knows all but the host's ID", unknownDREQ, func(f *gremlin, admin, _ *conn) {
			r := admin.dreq()
			r.LocalID++
			f.say(r)
		}),
		forged("REJ that leaves the host's ID out", unknownID, func(f *gremlin, admin, _ *conn) {
			f.say(&wire.REJ{RemoteID: admin.remote, Message: wire.MessageOther, Reason: 28})
		}),
		forged("REJ that leaves our ID out", unknownID, func(f *gremlin, admin, _ *conn) {
			f.say(&wire.REJ{LocalID: admin.local, Message: wire.MessageOther, Reason: 4})
		}),
	})
}

// TestNoOracle: a stranger that tries communication IDs gets the same answer whether or not an ID is in use.
func TestNoOracle(t *testing.T) {
	test(t, []attack{{row: "stranger", counter: cmSource, run: func(l *lab) {
		c := l.gremlin.login()
		stranger := newGremlin(l, strangerAddr)
		for _, id := range []wire.CommID{c.remote, c.remote + 1} {
			stranger.say(
				&wire.DREQ{LocalID: 1, RemoteID: id}, &wire.DREP{LocalID: 1, RemoteID: id}, &wire.RTU{LocalID: 1, RemoteID: id},
				&wire.REP{LocalID: 1, RemoteID: id, QPN: 0x300}, &wire.REJ{LocalID: 1, RemoteID: id},
				&wire.MRA{LocalID: 1, RemoteID: id, Message: wire.MessageREP})
			stranger.wantDREP(&conn{local: 1, remote: id})
		}
		c.alive()
		l.must(stranger.group.Close())
	}}})
}
