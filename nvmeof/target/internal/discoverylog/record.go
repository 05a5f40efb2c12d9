package discoverylog

import (
	"net/netip"
	"strconv"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// AdminDepth is the maximum number of entries of an admin queue: ASQSZ.
const AdminDepth = 128

// A Record is the part of a log entry that does not depend on how the host connected.
type Record struct {
	Kind      capsule.SubsystemType
	Transport capsule.TransportType
	Provider  uint8 // PRTYPE; 0: not reported
	Port      uint16
	Addr      netip.AddrPort // if unspecified, the address to which the host connected
	NQN       nvmeof.NQN
	TREQ      uint8
	EFLAGS    uint16
}

// Entry returns the entry for a host that connected to the target's address local. That replaces an unspecified
// address.
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
