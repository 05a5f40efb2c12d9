package target

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// adminQueueDepth is how many entries an admin queue has at most: ASQSZ.
const adminQueueDepth = 32

// A port is an address that the target listens on.
type port struct {
	id   PortID
	addr netip.AddrPort
}

// A record is one entry of the discovery log, as far as it depends on the host.
type record struct {
	kind      capsule.SubsystemType
	transport capsule.TransportType
	provider  uint8 // PRTYPE
	port      port
	nqn       string
	treq      uint8
	eflags    uint16
}

// records adds what the log of a host has of some subsystems, ordered by listener:
// each that allows the host, once for every listener on which it is exposed.
// Called with mu held.
func (t *Target) records(out []record, scope []*Subsystem, host string) []record {
	for _, l := range t.listeners {
		for _, s := range scope {
			e := s.hosts.Find(host)
			if e == nil || !s.exposed(l.port.id) || t.subsystems[s.nqn] != s {
				continue
			}
			r := record{
				kind: capsule.SubsystemNVM, transport: capsule.TransportRDMA, provider: l.device.provider(), port: l.port, nqn: s.nqn,
				treq: capsule.TREQNoFlowControl,
			}
			if e.Config.authenticates() {
				r.treq |= capsule.TREQSecureRequired
			}
			out = append(out, r)
		}
	}
	return out
}

// discoveryRecords is the whole log of a discovery controller, after the header:
// the discovery subsystem of the port it came through, the subsystems, and the
// referrals.
func (c *Controller) discoveryRecords() ([]record, uint64) {
	t := c.target
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []record{{
		kind: capsule.SubsystemCurrentDiscovery, transport: capsule.TransportRDMA, provider: c.listener.device.provider(), port: c.listener.port,
		nqn: c.subsystem.nqn, treq: capsule.TREQNoFlowControl, eflags: capsule.DiscoveryPersistent,
	}}
	out = t.records(out, t.Subsystems(), c.hostNQN)
	for i := range t.referrals {
		out = append(out, t.referrals[i].record())
	}
	return out, c.generation.Load()
}

// discoveryLog fills b with the log from an offset. Each read is of the log as it
// is at the time; a host that reads in parts compares GENCTR, which is the same as
// long as the log is.
func (c *Controller) discoveryLog(offset uint64, b []byte) (length uint64) {
	records, generation := c.discoveryRecords()
	length = capsule.DiscoveryHeaderSize + uint64(len(records))*capsule.DiscoveryEntrySize
	var part [capsule.DiscoveryEntrySize]byte
	for offset < length && len(b) > 0 {
		i := offset / capsule.DiscoveryEntrySize // the header is as long as an entry
		clear(part[:])
		if i == 0 {
			capsule.DiscoveryHeader{GENCTR: generation, NUMREC: uint64(len(records))}.Encode(part[:])
		} else {
			e := records[i-1].entry(c.localAddr)
			e.Encode(part[:])
		}
		n := copy(b, part[offset%capsule.DiscoveryEntrySize:])
		b, offset = b[n:], offset+uint64(n)
	}
	return length
}

// entry is the record for a host that reached the target at local, which stands
// in for an address that a listener leaves open.
func (r *record) entry(local netip.Addr) capsule.DiscoveryEntry {
	addr := r.port.addr.Addr()
	if addr.IsUnspecified() {
		addr = local
	}
	addr = addr.Unmap().WithZone("")
	e := capsule.DiscoveryEntry{
		TRTYPE: r.transport, ADRFAM: capsule.FamilyIPv6, SUBTYPE: r.kind,
		TREQ: r.treq, EFLAGS: r.eflags, SubNQN: capsule.MakeNQNField(r.nqn),
		PORTID: uint16(r.port.id), CNTLID: capsule.ControllerIDDynamic, ASQSZ: adminQueueDepth,
	}
	if r.transport == capsule.TransportRDMA {
		e.RDMAQPType, e.RDMACMS = capsule.RDMAQPConnected, capsule.RDMAConnectionCM
		e.RDMAPRType = max(r.provider, capsule.RDMAProviderNone)
	}
	if addr.Is4() {
		e.ADRFAM = capsule.FamilyIPv4
	}
	capsule.PutText(e.TRSVCID[:], strconv.Itoa(int(r.port.addr.Port())))
	capsule.PutText(e.TRADDR[:], addr.String())
	return e
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
	look := func(c *Controller) []record {
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
	before := make(map[*Controller][]record, len(t.discSub.controllers))
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
