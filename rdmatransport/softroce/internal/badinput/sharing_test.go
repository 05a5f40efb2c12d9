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

// rates are how often the honest host's work was done a window before an attack, in the
// worst of those during it, and after it.
type rates struct{ before, during, after int }

// measure counts how often work is done in windows of the bubble's clock before an
// attack, during it and after it. The attack takes turns with nobody: it goes on while the
// work does.
func (l *lab) measure(work func(), begin func(), keepUp func(), end func()) (r rates) {
	const window, during = 20 * time.Millisecond, 5
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

// delayed gives the network a delay, without which there are no rates.
func (l *lab) delayed(d time.Duration) {
	l.network.Faults = func(netip.Addr, netip.Addr) udp.Faults { return udp.Faults{Delay: d} }
}

// TestUnacknowledgedReads: a host that may read asks for all blocks that the
// others write, 16 Reads at a time, and never acknowledges the data, whether it says nothing or
// puts the target off without end. The others' writes keep their rate.
func TestUnacknowledgedReads(t *testing.T) {
	var attacks []attack
	for _, c := range []struct {
		name   string
		putOff bool
	}{{"never acknowledged", false}, {"put off without end", true}} {
		attacks = append(attacks, attack{row: "132 " + c.name, run: func(l *lab) {
			l.delayed(20 * time.Microsecond)
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
						break // the first, which all others are behind
					}
				}
				io.got = nil
				ended = ended || io.gone
			}, func() {})
			l.t.Logf("works in 20 ms: %d before, %d in the worst while, %d after", r.before, r.during, r.after)
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
