package target

import (
	"net/netip"
	"strconv"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// adminQueueDepth is how many entries an admin queue has at most: ASQSZ.
const adminQueueDepth = 32

// discoveryLog is the Discovery log as this host may see it: the discovery
// subsystem of the port it came through, then every subsystem that allows it,
// once for each port.
func (c *Controller) discoveryLog(capsule.GetLogPage) []byte {
	ports, visible, generation := c.target.discover(c.hostNQN)
	n := 1 + len(ports)*len(visible)
	b := make([]byte, capsule.DiscoveryHeaderSize+n*capsule.DiscoveryEntrySize)
	capsule.DiscoveryHeader{GENCTR: generation, NUMREC: uint64(n)}.Encode(b)

	rest := b[capsule.DiscoveryHeaderSize:]
	put := func(p port, kind capsule.SubsystemType, nqn string) {
		e := p.entry(c.localAddr)
		e.SUBTYPE, e.SubNQN = kind, capsule.MakeNQNField(nqn)
		e.Encode(rest)
		rest = rest[capsule.DiscoveryEntrySize:]
	}
	put(c.port, capsule.SubsystemCurrentDiscovery, capsule.DiscoveryNQN)
	for _, p := range ports {
		for _, s := range visible {
			put(p, capsule.SubsystemNVM, s.nqn)
		}
	}
	return b
}

// A port is an address that the target listens on.
type port struct {
	id   uint16
	addr netip.AddrPort
}

// entry describes the port to a host that reached the target at local, which
// stands in for an address that the port leaves open.
func (p port) entry(local netip.Addr) capsule.DiscoveryEntry {
	addr := p.addr.Addr()
	if addr.IsUnspecified() {
		addr = local
	}
	addr = addr.Unmap().WithZone("")
	e := capsule.DiscoveryEntry{
		TRTYPE: capsule.TransportRDMA, ADRFAM: capsule.FamilyIPv6,
		TREQ:   capsule.TREQNoFlowControl,
		PORTID: p.id, CNTLID: capsule.ControllerIDDynamic, ASQSZ: adminQueueDepth,
		RDMAQPType: capsule.RDMAQPConnected, RDMAPRType: capsule.RDMAProviderNone,
		RDMACMS: capsule.RDMAConnectionCM,
	}
	if addr.Is4() {
		e.ADRFAM = capsule.FamilyIPv4
	}
	capsule.PutText(e.TRSVCID[:], strconv.Itoa(int(p.addr.Port())))
	capsule.PutText(e.TRADDR[:], addr.String())
	return e
}
