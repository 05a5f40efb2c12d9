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

// discoveryRecords is the whole log of a discovery controller, after the header: the
// discovery subsystem of the port that the host connected to, the subsystems, and the
// referrals.
func (c *Controller) discoveryRecords() ([]discoverylog.Record, uint64) {
	t := c.target
	t.mu.Lock()
	defer t.mu.Unlock()
	self := c.listener.record(capsule.SubsystemCurrentDiscovery, c.subsystem.nqn)
	self.EFLAGS = capsule.DiscoveryPersistent
	shown := t.shown
	if shown == nil {
		shown = t.scene(nil)
	}
	return shown.records([]discoverylog.Record{self}, c.hostNQN), c.generation.Load()
}

// discoveryLog fills b with the log from an offset. Each read returns the log as it is at
// that time.
func (c *Controller) discoveryLog(offset uint64, b []byte) (length uint64) {
	records, generation := c.discoveryRecords()
	return discoverylog.Fill(b, offset, records, generation, c.localAddr)
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
