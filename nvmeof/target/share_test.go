package target

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// try connects an admin queue from an address, and returns the queue and the status.
func (f *fixture) try(d capsule.ConnectData, from string, kato uint32) (*hostQueue, capsule.Status) {
	f.t.Helper()
	h := f.dial(0, 0, 2)
	h.q.remote = netip.AddrPortFrom(netip.MustParseAddr(from), 50000)
	return h, h.do(connectCommand(capsule.Connect{SQSIZE: 1, KATO: kato}, d)).status
}

// TestOneHostTakesAllControllers: a host that connects as many controllers without keep alive as there are
// identifiers leaves some to others, whatever identity it uses (row 92).
func TestOneHostTakesAllControllers(t *testing.T) {
	const attacker, honest = "192.0.2.66", "192.0.2.7"
	invented := func(i int) nvmeof.NQN { return nvmeof.NQN(fmt.Sprintf("nqn.2026-11.io.example:%d", i)) }
	for name, c := range map[string]struct {
		anyone bool
		data   func(f *fixture, i int) capsule.ConnectData
		other  func(f *fixture) capsule.ConnectData
	}{
		"a host that is allowed": {
			data:  func(f *fixture, _ int) capsule.ConnectData { return dataOf(f.sub.nqn, testHostNQN) },
			other: func(f *fixture) capsule.ConnectData { return dataOf(f.sub.nqn, otherHostNQN) },
		},
		"names that it makes up": {
			anyone: true,
			data: func(f *fixture, i int) capsule.ConnectData {
				d := dataOf(f.sub.nqn, invented(i))
				d.HostID = capsule.HostID{byte(i), byte(i >> 8), 1}
				return d
			},
			other: func(f *fixture) capsule.ConnectData { return dataOf(f.sub.nqn, otherHostNQN) },
		},
		"the discovery service": {
			data:  func(_ *fixture, i int) capsule.ConnectData { return dataOf(capsule.DiscoveryNQN, invented(i)) },
			other: func(*fixture) capsule.ConnectData { return dataOf(capsule.DiscoveryNQN, otherHostNQN) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.sub.AllowHost(otherHostNQN)
			f.sub.AllowAnyHost(c.anyone)
			var held []*hostQueue
			for i := range f.target.cfg.MaxControllers {
				h, status := f.try(c.data(f, i), attacker, 0)
				switch status {
				case capsule.StatusSuccess:
					held = append(held, h)
				case capsule.StatusConnectControllerBusy:
					h.lose()
				default:
					t.Fatalf("controller %d: %v", i, status)
				}
				f.target.arrivals.from = nil // as if seconds had passed
			}
			if n := len(held); n == 0 || n > f.target.cfg.MaxControllers/2 {
				t.Errorf("one address holds %d of %d controllers", n, f.target.cfg.MaxControllers)
			}
			for range 4 { // one for each path
				h, status := f.try(c.other(f), honest, 0)
				if !status.OK() {
					t.Errorf("another host beside that: %v", status)
				}
				held = append(held, h)
			}
			for _, h := range held {
				h.lose()
			}
			if n := len(f.target.Controllers()); n != 0 {
				t.Errorf("%d controllers are left", n)
			}
		})
	}
}

// TestDiscoveryFromManyAddresses: connections to the discovery service from ever new addresses, as an IPv6 network
// has them, exclude no other host from it.
func TestDiscoveryFromManyAddresses(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxControllers = 64; c.Revalidate = -1 })
	d := dataOf(capsule.DiscoveryNQN, otherHostNQN)
	f.connectAdmin(0) // makes its address known
	first, status := f.try(d, "192.0.2.2", 0)
	if !status.OK() {
		t.Fatal(status)
	}
	for i := range 4 * f.target.cfg.MaxControllers {
		if h, status := f.try(d, fmt.Sprintf("2001:db8::%x", i+1), 0); !status.OK() {
			h.lose()
		}
		f.target.barrier() // displaced controllers have ended
		if i%16 > 0 {
			continue
		}
		for _, from := range []string{"2001:db8::ffff:1", "2001:db8:0:1::1", "192.0.2.77"} {
			h, status := f.try(d, from, 0)
			if !status.OK() {
				t.Fatalf("%s beside %d: %v", from, i, status)
			}
			h.lose()
		}
	}
	first.property(capsule.PropertyCSTS)
	if n := f.target.ControllerCounts(); n.Displaced == 0 {
		t.Errorf("%+v", n)
	}
}

// TestStaleControllersGoFirst is row 92: a host at its limit has to retry while all of its controllers are in use;
// otherwise the one that has been silent for longest is replaced.
func TestStaleControllersGoFirst(t *testing.T) {
	for name, d := range map[string]capsule.ConnectData{
		"I/O": dataOf(testSubNQN, testHostNQN), "discovery": dataOf(capsule.DiscoveryNQN, testHostNQN),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(c *Config) { c.MaxHostControllers = 3; c.Revalidate = -1 })
				f.sub.AllowHost(otherHostNQN)
				other := dataOf(f.sub.nqn, otherHostNQN)
				other.SubNQN = d.SubNQN
				first, _ := f.try(other, "192.0.2.7", 0)
				var all []*hostQueue
				for range 3 {
					h, status := f.try(d, "192.0.2.2", 0)
					if !status.OK() {
						t.Fatal(status)
					}
					all = append(all, h)
					time.Sleep(probePeriod / 2)
				}
				h, status := f.try(d, "192.0.2.2", 0)
				if status != capsule.StatusConnectControllerBusy {
					t.Errorf("the fourth: %v, want busy without Do Not Retry", status)
				}
				h.lose()
				time.Sleep(2 * staleAfter)
				all[0].property(capsule.PropertyCSTS)
				all[2].property(capsule.PropertyCSTS)
				if _, status = f.try(d, "192.0.2.2", 0); !status.OK() {
					t.Errorf("the fourth beside one that is silent: %v", status)
				}
				<-all[1].closed
				for i, h := range []*hostQueue{first, all[0], all[2]} {
					if h.gone() {
						t.Errorf("controller %d ended though it was in use, or another host's", i)
					}
				}
				if got := f.target.ControllerCounts(); got != (ControllerCounts{Refused: 1, Displaced: 1}) {
					t.Errorf("%+v", got)
				}
				if n := f.logged("controller ended: its host connected more than its maximum number of controllers"); n != 1 {
					t.Errorf("%d lines about it", n)
				}
				f.close2(t)
			})
		})
	}
}

// TestProbe: a silent host without keep alive stays as long as its transport answers; otherwise its controller
// ends.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
		_, io := f.both()
		silent, _ := f.connectAdmin(0)
		gone, _ := f.connectAdmin(0)
		slow, _ := f.connectAdmin(60_000) // keep alive is enough
		gone.call(func() { gone.away = true })
		for range 30 {
			time.Sleep(probePeriod / 3)
			io.wantOK(readOf(1))
		}
		<-gone.closed
		for name, h := range map[string]*hostQueue{"silent": silent, "with keep alive": slow} {
			if h.gone() {
				t.Errorf("the host %s is given up", name)
			}
		}
		busy := io.q.controller.admin.wire.(*hostQueue)
		for name, h := range map[string]*hostQueue{"that sends commands": busy, "with keep alive": slow} {
			if h.probes > 0 {
				t.Errorf("the host %s was probed %d times", name, h.probes)
			}
		}
		if silent.probes == 0 {
			t.Error("the silent host was not probed")
		}
		if got := f.target.ControllerCounts(); got != (ControllerCounts{Unanswered: 1}) {
			t.Errorf("%+v", got)
		}
		f.close2(t)
	})
}

// TestImpostorsLimit is row 92: controllers of a peer that knows a host's names, but not its key, do not count for
// the host, end in time, and replace none of the host's, even at its own address.
func TestImpostorsLimit(t *testing.T) {
	for _, from := range []string{"192.0.2.66", "192.0.2.2"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keyed{newFixture(t, func(c *Config) { c.MaxHostControllers = 4; c.Revalidate = -1 }), newKey(t), newKey(t), 0}
				k.allow(k.key, k.ctrlKey)
				flood := func() {
					for range 10 {
						if _, status := k.try(connectData(), from, 0); !status.OK() {
							t.Errorf("impostor: %v", status)
						}
					}
				}
				var hosts []*hostQueue
				for range 4 {
					flood()
					h, _ := k.admin()
					hosts = append(hosts, h)
					time.Sleep(probePeriod)
				}
				time.Sleep(staleAfter)
				flood()
				for i, h := range hosts {
					if h.gone() {
						t.Errorf("controller %d of the host ended", i)
					}
				}
				if n := len(k.target.Controllers()); n > 2*4 {
					t.Errorf("%d controllers, the limit is 4 of the host and 4 of impostors", n)
				}
				hosts[0].property(capsule.PropertyCSTS)
				hosts[2].property(capsule.PropertyCSTS)
				k.admin() // replaces its own that has been silent for longest
				if hosts[0].gone() || !hosts[1].gone() || hosts[2].gone() || hosts[3].gone() {
					t.Error("another one ended than the one that was silent for longest")
				}
				time.Sleep(k.target.cfg.AuthTimeout + time.Second)
				if n := len(k.target.Controllers()); n != 4 {
					t.Errorf("%d controllers are left, want the host's 4", n)
				}
				k.close2(t)
			})
		})
	}
}
