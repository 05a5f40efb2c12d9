package discovery

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Scope says with which identity and how to connect; its meaning is up to the [Dialer]. Referrals and records inherit
// the scope of the controller that lists them.
type Scope int

// An Endpoint is a discovery controller, as addressed by a host.
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

// A Record is an entry of a log that can be connected to: a subsystem on one port.
type Record struct {
	Scope Scope
	Entry capsule.DiscoveryEntry
}

// key identifies a record: other fields of entries for the same port may differ between discovery controllers.
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
	if family == capsule.FamilyIPv6 { // the address says which of the two it is
		family = capsule.FamilyIPv4
	}
	return key{r.Scope, r.Entry.TRTYPE, family, r.Traddr(), r.Trsvcid(), r.NQN()}
}

// Traddr returns the transport address. Like Trsvcid and NQN, it is unfiltered text of the controller.
func (r *Record) Traddr() string { return capsule.Text(r.Entry.TRADDR[:]) }

// Trsvcid returns the transport service identifier, the port.
func (r *Record) Trsvcid() string { return capsule.Text(r.Entry.TRSVCID[:]) }

// NQN returns the subsystem's NQN.
func (r *Record) NQN() string { return capsule.Text(r.Entry.SubNQN[:]) }

// Addr returns the address of the record's port, or why this host cannot connect to it.
func (r *Record) Addr() (netip.AddrPort, error) { return address(&r.Entry) }

// String returns a printable form such as "rdma traddr=192.0.2.1,trsvcid=4420 nqn=...".
func (r *Record) String() string {
	return fmt.Sprintf("%v traddr=%s,trsvcid=%s nqn=%s", r.Entry.TRTYPE,
		nvmeof.Printable(r.Traddr()), nvmeof.Printable(r.Trsvcid()), nvmeof.Printable(r.NQN()))
}

// address returns the address of an entry for RDMA over IP.
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

// Same reports whether both records are for the same subsystem on the same port, in the same scope.
func (r *Record) Same(o *Record) bool { return r.key() == o.key() }
