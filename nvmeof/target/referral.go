package target

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
)

// A Referral refers hosts to another discovery service. A zero field takes the default.
type Referral struct {
	Addr      netip.AddrPort        // required
	Transport capsule.TransportType // default RDMA
	NQN       nvmeof.NQN            // of the discovery subsystem; default: the well-known one
	Port      PortID                // in the log of that service; default 0
	Secure    bool                  // it requires hosts to authenticate
}

func (r *Referral) record() discoverylog.Record {
	out := discoverylog.Record{Kind: capsule.SubsystemReferral, Transport: r.Transport, Port: uint16(r.Port), Addr: r.Addr, NQN: r.NQN}
	if r.Secure {
		out.TREQ = capsule.TREQSecureRequired
	}
	return out
}

// same reports whether both refer to the same service.
func (r *Referral) same(o *Referral) bool {
	return r.Addr == o.Addr && r.Transport == o.Transport && r.NQN == o.NQN
}

func (r Referral) complete() Referral {
	r.Transport = cmp.Or(r.Transport, capsule.TransportRDMA)
	r.NQN = cmp.Or(r.NQN, capsule.DiscoveryNQN)
	return r
}

// AddReferral adds an entry to the discovery log of all hosts.
func (t *Target) AddReferral(r Referral) error {
	r = r.complete()
	_, err := nvmeof.AnyNQN(string(r.NQN))
	switch {
	case !r.Addr.IsValid() || r.Addr.Addr().IsUnspecified() || r.Addr.Port() == 0:
		return fmt.Errorf("referral to %v: needs an address and a port that hosts can reach", r.Addr)
	case err != nil:
		return fmt.Errorf("referral to %v: %w", r.Addr, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.referrals {
		if t.referrals[i].same(&r) {
			return fmt.Errorf("referral to %v exists already", r.Addr)
		}
	}
	for _, l := range t.listeners {
		if l.port.addr == r.Addr && r.Transport == capsule.TransportRDMA {
			return fmt.Errorf("referral to %v: this target itself listens there: a referral names another discovery service", r.Addr)
		}
	}
	t.reshapeLocked([]*Subsystem{}, func() { t.referrals = append(slices.Clone(t.referrals), r) })
	return nil
}

// RemoveReferral removes the referral to that address, with that transport and NQN.
func (t *Target) RemoveReferral(r Referral) error {
	r = r.complete()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.referrals, func(o Referral) bool { return o.same(&r) })
	if at < 0 {
		return fmt.Errorf("referral to %v does not exist", r.Addr)
	}
	t.reshapeLocked([]*Subsystem{}, func() { t.referrals = slices.Delete(slices.Clone(t.referrals), at, at+1) })
	return nil
}

// Referrals lists the referrals in the order in which they were added.
func (t *Target) Referrals() []Referral {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.referrals)
}
