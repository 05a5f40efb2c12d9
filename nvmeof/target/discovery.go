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

// maxShown bounds the records of all logs that are kept.
const maxShown = 1 << 17

// shownLogs are the logs of hosts since something of any has changed, without the discovery service itself: it
// takes long to make one where there are many subsystems, and anybody may read his as often as he likes. They
// are under Target.mu.
type shownLogs struct {
	version uint64                               // counts changes
	of      map[nvmeof.NQN][]discoverylog.Record // by scene.key
	records int                                  // of all
}

// A shownAs is whose log a discovery controller has, in a version.
type shownAs struct {
	version uint64
	key     nvmeof.NQN
}

func (l *shownLogs) changed() { *l = shownLogs{version: l.version + 1} }

// shownLog is the log of a discovery controller's host. Called with mu held.
func shownLog(t *Target, c *Controller) []discoverylog.Record {
	l := &t.shownLogs
	if c.shown.version == l.version {
		if log, made := l.of[c.shown.key]; made {
			return log
		}
	}
	shown := t.shown
	if shown == nil {
		shown = t.scene(nil)
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

// discoveryLog fills b with the log from an offset: after the header the discovery subsystem of the port
// that the host connected to, the subsystems, and the referrals. Each read returns the log as it is at
// that time.
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

// record is the log's entry of a subsystem that is reached through the listener.
func (l *Listener) record(kind capsule.SubsystemType, nqn nvmeof.NQN) discoverylog.Record {
	return discoverylog.Record{
		Kind: kind, Transport: capsule.TransportRDMA, Provider: l.device.provider(), Port: uint16(l.port.id), Addr: l.port.addr,
		NQN: nqn, TREQ: capsule.TREQNoFlowControl,
	}
}

// provider is PRTYPE, if the device reports its protocol.
func (d *Device) provider() uint8 {
	switch a := &d.attrs; {
	case a.Provider == "softroce":
		return capsule.RDMAProviderRoCEv2
	case a.Provider == "verbs" && !a.Immediate:
		return capsule.RDMAProviderIWARP
	}
	return capsule.RDMAProviderNone
}

// follow initialises a discovery controller's generation to that of all, which is not
// below any that another controller of the same host had.
func (t *Target) follow(c *Controller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.generation.Store(t.generation)
}
