package discoverylog

import (
	"net/netip"
	"strconv"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// AdminDepth is the largest admin queue, in entries: ASQSZ.
const AdminDepth = 128

// A Record is one entry of the log, as far as it depends on the host.
type Record struct {
	Kind      capsule.SubsystemType
	Transport capsule.TransportType
	Provider  uint8 // PRTYPE; 0: not reported
	Port      uint16
	Addr      netip.AddrPort // unspecified: the address to which the host connected
	NQN       nvmeof.NQN
	TREQ      uint8
	EFLAGS    uint16
}

// Entry is the record for a host that connected to the target at local, which replaces an
// address that a listener leaves unspecified.
func (r *Record) Entry(local netip.Addr) capsule.DiscoveryEntry {
	addr := r.Addr.Addr()
	if addr.IsUnspecified() {
		addr = local
	}
	addr = addr.Unmap().WithZone("")
	e := capsule.DiscoveryEntry{
		TRTYPE: r.Transport, ADRFAM: capsule.FamilyIPv6, SUBTYPE: r.Kind,
		TREQ: r.TREQ, EFLAGS: r.EFLAGS, SubNQN: capsule.MakeNQNField(string(r.NQN)),
		PORTID: r.Port, CNTLID: capsule.ControllerIDDynamic, ASQSZ: AdminDepth,
	}
	if r.Transport == capsule.TransportRDMA {
		e.RDMAQPType, e.RDMACMS = capsule.RDMAQPConnected, capsule.RDMAConnectionCM
		e.RDMAPRType = max(r.Provider, capsule.RDMAProviderNone)
	}
	if addr.Is4() {
		e.ADRFAM = capsule.FamilyIPv4
	}
	capsule.PutText(e.TRSVCID[:], strconv.Itoa(int(r.Addr.Port())))
	capsule.PutText(e.TRADDR[:], addr.String())
	return e
}
