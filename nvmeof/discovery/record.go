package discovery

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Scope says as whom and how to connect: what it stands for is up to the
// [Dialer]. Referrals and records have that of the controller that they come from.
type Scope int

// An Endpoint is a discovery controller, as a host gets to it.
type Endpoint struct {
	Scope Scope
	Addr  netip.AddrPort
	NQN   nvmeof.NQN // nvmeof.DiscoveryNQN, or a unique name
}

func (e Endpoint) String() string {
	if e.NQN == nvmeof.DiscoveryNQN {
		return e.Addr.String()
	}
	return fmt.Sprintf("%v (%v)", e.Addr, e.NQN)
}

// A Record is something that can be connected to: a subsystem through one port.
type Record struct {
	Scope Scope
	Entry capsule.DiscoveryEntry
}

// key is what tells records apart: two discovery controllers may differ in all the
// rest and mean the same.
type key struct {
	scope     Scope
	transport capsule.TransportType
	family    capsule.AddressFamily
	traddr    string
	trsvcid   string
	nqn       string
}

func (r *Record) key() key {
	family := r.Entry.ADRFAM
	if family == capsule.FamilyIPv6 { // the address says which of both it is
		family = capsule.FamilyIPv4
	}
	return key{r.Scope, r.Entry.TRTYPE, family, r.Traddr(), r.Trsvcid(), r.NQN()}
}

// Traddr, Trsvcid and NQN are text of the controller, as it is.
func (r *Record) Traddr() string { return capsule.Text(r.Entry.TRADDR[:]) }

// Trsvcid is the port.
func (r *Record) Trsvcid() string { return capsule.Text(r.Entry.TRSVCID[:]) }

// NQN is the subsystem's name.
func (r *Record) NQN() string { return capsule.Text(r.Entry.SubNQN[:]) }

// Addr is where the record's port is, or why this host cannot get there.
func (r *Record) Addr() (netip.AddrPort, error) { return address(&r.Entry) }

// String is "rdma traddr=192.0.2.1,trsvcid=4420 nqn=...", fit to be printed.
func (r *Record) String() string {
	return fmt.Sprintf("%v traddr=%s,trsvcid=%s nqn=%s", r.Entry.TRTYPE,
		nvmeof.Printable(r.Traddr()), nvmeof.Printable(r.Trsvcid()), nvmeof.Printable(r.NQN()))
}

// address is that of an entry which leads over RDMA to an IP address.
func address(e *capsule.DiscoveryEntry) (netip.AddrPort, error) {
	if e.TRTYPE != capsule.TransportRDMA {
		return netip.AddrPort{}, fmt.Errorf("transport %v, and this host has rdma", e.TRTYPE)
	}
	if e.ADRFAM != capsule.FamilyIPv4 && e.ADRFAM != capsule.FamilyIPv6 {
		return netip.AddrPort{}, fmt.Errorf("%v, and this host has ipv4 and ipv6", e.ADRFAM)
	}
	a, err := nvmeof.ParseAddress(capsule.Text(e.TRADDR[:]), capsule.Text(e.TRSVCID[:]))
	switch {
	case err != nil:
		return a, err
	case a.Addr().IsUnspecified() || a.Addr().IsMulticast():
		return a, fmt.Errorf("address %v is not one to connect to", a.Addr())
	}
	return a, nil
}

// Same reports whether both lead to the same subsystem through the same port, found
// in the same scope.
func (r *Record) Same(o *Record) bool { return r.key() == o.key() }
