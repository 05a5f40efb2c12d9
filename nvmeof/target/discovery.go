package target

import (
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
)

// A port is an address that the target listens on.
type port struct {
	id   PortID
	addr netip.AddrPort
}

// records adds what the log of a host has of some subsystems, ordered by listener:
// each that allows the host, once for every listener on which it is exposed.
// Called with mu held.
func (t *Target) records(out []discoverylog.Record, scope []*Subsystem, host string) []discoverylog.Record {
	for _, l := range t.listeners {
		for _, s := range scope {
			e := s.hosts.Find(host)
			if e == nil || !s.exposed(l.port.id) || t.subsystems[s.nqn] != s {
				continue
			}
			r := l.record(capsule.SubsystemNVM, s.nqn)
			if e.Config.authenticates() {
				r.TREQ |= capsule.TREQSecureRequired
			}
			out = append(out, r)
		}
	}
	return out
}

// discoveryRecords is the whole log of a discovery controller, after the header:
// the discovery subsystem of the port it came through, the subsystems, and the
// referrals.
func (c *Controller) discoveryRecords() ([]discoverylog.Record, uint64) {
	t := c.target
	t.mu.Lock()
	defer t.mu.Unlock()
	self := c.listener.record(capsule.SubsystemCurrentDiscovery, c.subsystem.nqn)
	self.EFLAGS = capsule.DiscoveryPersistent
	out := t.records([]discoverylog.Record{self}, t.Subsystems(), c.hostNQN)
	for i := range t.referrals {
		out = append(out, t.referrals[i].record())
	}
	return out, c.generation.Load()
}

// discoveryLog fills b with the log from an offset. Each read is of the log as it is at
// the time.
func (c *Controller) discoveryLog(offset uint64, b []byte) (length uint64) {
	records, generation := c.discoveryRecords()
	return discoverylog.Fill(b, offset, records, generation, c.localAddr)
}

// record is what the log tells of a subsystem that is reached through the listener.
func (l *Listener) record(kind capsule.SubsystemType, nqn string) discoverylog.Record {
	return discoverylog.Record{
		Kind: kind, Transport: capsule.TransportRDMA, Provider: l.device.provider(), Port: uint16(l.port.id), Addr: l.port.addr,
		NQN: nqn, TREQ: capsule.TREQNoFlowControl,
	}
}

// provider is PRTYPE, as far as a device tells what it speaks.
func (d *Device) provider() uint8 {
	switch a := &d.attrs; {
	case a.Provider == "softroce":
		return capsule.RDMAProviderRoCEv2
	case a.Provider == "verbs" && !a.Immediate:
		return capsule.RDMAProviderIWARP
	}
	return capsule.RDMAProviderNone
}

// reshape makes a change of what hosts see of some subsystems, or of all if scope
// is nil, and tells exactly those discovery controllers whose log it changes.
func (t *Target) reshape(scope []*Subsystem, change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reshapeLocked(scope, change)
}

// reshapeLocked is reshape with mu held. A controller's generation changes with
// its log, under mu.
func (t *Target) reshapeLocked(scope []*Subsystem, change func()) {
	look := func(c *Controller) []discoverylog.Record {
		in := scope
		if in == nil {
			in = t.Subsystems()
		}
		out := t.records(nil, in, c.hostNQN)
		for i := range t.referrals {
			out = append(out, t.referrals[i].record())
		}
		return out
	}
	t.discSub.mu.Lock()
	defer t.discSub.mu.Unlock()
	before := make(map[*Controller][]discoverylog.Record, len(t.discSub.controllers))
	for _, c := range t.discSub.controllers {
		before[c] = look(c)
	}
	change()
	t.generation++
	for c, old := range before {
		if !slices.Equal(old, look(c)) {
			c.generation.Store(t.generation)
			c.do(func() { c.raise(capsule.EventDiscoveryChange) })
		}
	}
}

// follow begins to keep a discovery controller's generation: that of all, which is
// not below what another controller of the same host ever had.
func (t *Target) follow(c *Controller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.generation.Store(t.generation)
}
