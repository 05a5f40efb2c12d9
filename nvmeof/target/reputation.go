package target

import (
	"net/netip"
	"time"
)

const (
	// suspicion is how long an address, and its IPv6 network, are suspect after a host at the address has failed
	// to authenticate.
	suspicion = time.Minute
	// maxReputation limits the number of addresses that are remembered.
	maxReputation = 1024
)

// A standing is the reputation of an address, the best first.
type standing int

const (
	known   standing = iota // a host has authenticated from there since the last failure
	unknown                 // neither has happened recently
	suspect                 // a host has failed there, or elsewhere in its IPv6 network
	standings
)

// reputation has the reputation of addresses from which hosts authenticate.
type reputation map[netip.Addr]mark

// A mark is the most recent result at an address.
type mark struct {
	proved bool
	at     time.Time
}

func (m mark) suspect(now time.Time) bool { return !m.proved && now.Sub(m.at) < suspicion }

func (r reputation) standing(from netip.Addr, now time.Time) standing {
	m, ok := r[from]
	if ok && m.proved {
		return known
	}
	n, inNetwork := r[originOf(from)]
	if ok && m.suspect(now) || !ok && inNetwork && n.suspect(now) {
		return suspect
	}
	return unknown
}

func (r reputation) proved(from netip.Addr, now time.Time) { r.set(from, mark{true, now}) }

func (r reputation) failed(from netip.Addr, now time.Time) {
	r.set(from, mark{false, now})
	if n := originOf(from); n != from {
		r.set(n, mark{false, now})
	}
}

// set records a result. At the limit, it removes expired ones or, if there are none, any address, those where a
// host has authenticated last.
func (r reputation) set(at netip.Addr, m mark) {
	if _, ok := r[at]; !ok && len(r) >= maxReputation {
		for a, old := range r {
			if !old.proved && !old.suspect(m.at) {
				delete(r, a)
			}
		}
		for _, proved := range []bool{false, true} {
			for a, old := range r {
				if len(r) >= maxReputation && old.proved == proved {
					delete(r, a)
				}
			}
		}
	}
	r[at] = m
}
