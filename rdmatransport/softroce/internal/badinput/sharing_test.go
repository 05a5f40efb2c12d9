package badinput

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// rates are the numbers of rounds of work that the well-behaved host completes per window: before an attack, in the
// worst window during it, and after it.
type rates struct{ before, during, after int }

// measure counts rounds of work in windows of virtual time before, during and after an attack. The attack runs
// concurrently with the work.
func (l *lab) measure(work func(), begin func(), keepUp func(), end func()) (r rates) {
	const window, during = 50 * time.Millisecond, 3
	count := func() (n int) {
		for until := time.Now().Add(window); time.Now().Before(until); n++ {
			work()
		}
		return n
	}
	r.before = count()
	begin()
	stop, stopped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	halt := func() { once.Do(func() { close(stop) }); <-stopped }
	defer halt()
	go func() { // ends with stop
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				keepUp()
			}
		}
	}()
	r.during = r.before
	for began := time.Now(); time.Since(began) < during*window; {
		at := time.Now()
		n := count()
		r.during = min(r.during, int(int64(n)*int64(window)/int64(time.Since(at))))
	}
	halt()
	end()
	time.Sleep(10 * time.Second)
	r.after = count()
	return r
}

// delayed gives the network a delay, without which rates are meaningless.
func (l *lab) delayed(d time.Duration) {
	l.network.Faults = func(netip.Addr, netip.Addr) udp.Faults { return udp.Faults{Delay: d} }
}

// TestUnacknowledgedReads: a host with read access reads all blocks that the others write, 16 Reads at a time, and
// never acknowledges the data, whether it is silent or sends RNR NAKs forever. The others' writes keep their rate.
func TestUnacknowledgedReads(t *testing.T) {
	var attacks []attack
	for _, c := range []struct {
		name   string
		putOff bool
	}{{"never acknowledged", false}, {"put off without end", true}} {
		if !c.putOff && !*long {
			continue // the other one keeps the target busy as well
		}
		attacks = append(attacks, attack{row: "132 " + c.name, run: func(l *lab) {
			l.delayed(50 * time.Microsecond)
			_, io := l.gremlin.ioQueue(0)
			io.mute = true
			ended := false
			r := l.measure(l.host.work, func() {
				for i := range 16 {
					cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IORead), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(1<<46, 64<<10, 0x1234, false)}
					capsule.ReadWrite{SLBA: capsule.LBA(i), Blocks: 16}.Put(&cmd)
					l.gremlin.send(io.capsule(cmd, nil)...)
				}
			}, func() {
				l.gremlin.settle()
				for i := range io.got {
					if p := &io.got[i]; c.putOff && p.Opcode.Flags()&wire.FlagRequest != 0 {
						l.gremlin.send(io.ack(p.PSN, wire.SyndromeRNR(1)))
						break // the first one, which all others wait for
					}
				}
				io.got = nil
				ended = ended || io.gone
			}, func() {})
			l.t.Logf("works in 50 ms: %d before, %d in the worst while, %d after", r.before, r.during, r.after)
			if 2*r.during < r.before {
				l.t.Errorf("the honest host did its work %d times, %d before the attack", r.during, r.before)
			}
			if 10*r.after < 9*r.before {
				l.t.Errorf("after the attack the honest host did its work %d times, %d before", r.after, r.before)
			}
			if ended {
				l.t.Error("the queue was ended, though there are buffers to copy to")
			}
			io.gone = io.gone || !c.putOff
			l.gremlin.settle()
		}})
	}
	test(t, attacks)
}

// debianBuffer is the maximum receive buffer with Debian's defaults, as counted by the kernel.
const debianBuffer = 2 * 212992

// answerReads answers each RDMA READ that arrived with an RNR NAK, or with a part of the data.
func (c *conn) answerReads(dribble bool) {
	for i := range c.got {
		if p := &c.got[i]; p.Opcode == wire.RCReadRequest {
			if !dribble || p.RETH.DMALen <= mtu {
				c.g.send(c.ack(p.PSN, wire.SyndromeRNR(1)))
				break // the first one, which all others wait for
			}
			c.msn = c.msn.Add(1)
			first := c.ack(p.PSN, wire.SyndromeAck)
			first.Opcode, first.Payload = wire.RCReadResponseFirst, make([]byte, mtu)
			c.g.send(first)
			break
		}
	}
	c.got = nil
}

// TestUndeliveredWriteData: hosts that do not deliver the data of their writes but keep the target waiting, and peers
// that are not allowed and do the same with the data of their Connect commands, do not take the resources for RDMA
// READs from others.
func TestUndeliveredWriteData(t *testing.T) {
	var attacks []attack
	for _, c := range []struct {
		name     string
		dribble  bool
		stranger bool
	}{{"put off", false, false}, {"by strangers", false, true}, {"in dribs", true, false}}[:choose(2, 3)] {
		attacks = append(attacks, attack{row: "133 " + c.name, buffer: debianBuffer, run: func(l *lab) {
			l.delayed(50 * time.Microsecond)
			var conns []*conn
			if c.stranger {
				for range 200 {
					x, r := l.gremlin.open()
					x.establish(r)
					conns = append(conns, x)
				}
			} else {
				for range 3 {
					_, io := l.gremlin.ioQueue(0)
					conns = append(conns, io)
				}
			}
			r := l.measure(l.host.work, func() {
				for _, x := range conns {
					x.mute = true
					if c.stranger {
						cmd := connectCommand(0, 32)
						cmd.SGL = capsule.KeyedSGL(1<<46, capsule.ConnectDataSize, 0x1234, false)
						l.gremlin.send(x.capsule(cmd, nil)...)
						continue
					}
					for range 16 {
						cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(1<<46, 16<<10, 0x1234, false)}
						capsule.ReadWrite{SLBA: 128, Blocks: 4}.Put(&cmd)
						l.gremlin.send(x.capsule(cmd, nil)...)
					}
				}
			}, func() {
				l.gremlin.settle()
				for _, x := range conns {
					x.answerReads(c.dribble)
				}
			}, func() {
				for _, x := range conns {
					x.gone, x.remote = true, 0 // they fall silent and are given up
				}
			})
			l.t.Logf("works in 50 ms: %d before, %d in the worst while, %d after", r.before, r.during, r.after)
			if 2*r.during < r.before {
				l.t.Errorf("the honest host did its work %d times, %d before the attack", r.during, r.before)
			}
			if 10*r.after < 9*r.before {
				l.t.Errorf("after the attack the honest host did its work %d times, %d before", r.after, r.before)
			}
			if n := l.target.Slowed(); (n > 0) == c.stranger { // strangers had less from the start
				l.t.Errorf("%d times a queue was counted that kept others waiting", n)
			}
			l.gremlin.settle()
		}})
	}
	test(t, attacks)
}
