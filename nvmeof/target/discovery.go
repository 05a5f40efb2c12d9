package target

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
)

// A port is an address that the target listens on.
type port struct {
	id   PortID
	addr netip.AddrPort
}

// maxShown limits the number of records in all cached logs.
const maxShown = 1 << 17

// shownLogs caches the discovery logs of hosts until one changes, without the record of the discovery service
// itself: with many subsystems it takes long to create one, and any host may read its log as often as it likes. It
// is protected by Target.mu.
type shownLogs struct {
	version uint64                               // number of changes
	of      map[nvmeof.NQN][]discoverylog.Record // by discoveryInput.key
	records int                                  // number of records in all logs
}

// A shownAs says which log a discovery controller has, in which version.
type shownAs struct {
	version uint64
	key     nvmeof.NQN
}

func (l *shownLogs) changed() { *l = shownLogs{version: l.version + 1} }

// shownLog returns the log of a discovery controller's host. Called with mu held.
func shownLog(t *Target, c *Controller) []discoverylog.Record {
	l := &t.shownLogs
	if c.shown.version == l.version {
		if log, made := l.of[c.shown.key]; made {
			return log
		}
	}
	shown := t.shown
	if shown == nil {
		shown = t.discoveryInput(nil)
	}
	c.shown = shownAs{l.version, shown.key(c.hostNQN)}
	log, made := l.of[c.shown.key]
	if made {
		return log
	}
	log = shown.records(c.shown.key)
	if l.of == nil || l.records+len(log) > maxShown {
		l.of, l.records = make(map[nvmeof.NQN][]discoverylog.Record), 0
	}
	l.of[c.shown.key] = log
	l.records += len(log)
	return log
}

// discoveryLog fills b with the log from an offset: after the header come the discovery subsystem on the port that
// the host connected to, the subsystems, and the referrals. Each read returns the current log.
func (c *Controller) discoveryLog(offset uint64, b []byte) (length uint64) {
	t := c.target
	self := c.listener.record(capsule.SubsystemCurrentDiscovery, c.subsystem.nqn)
	self.EFLAGS = capsule.DiscoveryPersistent
	t.mu.Lock()
	log, generation := shownLog(t, c), c.generation.Load()
	t.mu.Unlock()
	return discoverylog.Fill(b, offset, self, log, generation, c.localAddr)
}

func discoveryLogLength(c *Controller) uint64 { return c.discoveryLog(0, nil) }

// record returns the log's entry for a subsystem on the listener.
func (l *Listener) record(kind capsule.SubsystemType, nqn nvmeof.NQN) discoverylog.Record {
	return discoverylog.Record{
		Kind: kind, Transport: capsule.TransportRDMA, Provider: l.device.provider(), Port: uint16(l.port.id), Addr: l.port.addr,
		NQN: nqn, TREQ: capsule.TREQNoFlowControl,
	}
}

// provider returns PRTYPE, if the device reports its protocol.
func (d *Device) provider() uint8 {
	switch a := &d.attrs; {
	case a.Provider == "softroce":
		return capsule.RDMAProviderRoCEv2
	case a.Provider == "verbs" && !a.Immediate:
		return capsule.RDMAProviderIWARP
	}
	return capsule.RDMAProviderNone
}

// follow initializes a discovery controller's generation to the target's, which is not below that of any earlier
// controller of the same host.
func (t *Target) follow(c *Controller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.generation.Store(t.generation)
}
