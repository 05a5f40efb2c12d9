package target

import (
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// All controllers of a subsystem share its identifiers. A host gets at most Config.MaxHostControllers; in the
// discovery service, which is open to hosts of any name, that is the limit of an address. An address gets no more
// than half of all, whatever names it uses, and the last ones are for hosts and addresses without a controller.

const (
	// staleAfter is how long a controller has to be silent before a new one of the same host may replace it. It is
	// longer than the time within which a host without keep alive that is gone fails to answer a probe.
	staleAfter = 15 * probePeriod
	// The last 1/reserve of all identifiers is for hosts and addresses that have none.
	reserve = 16
)

// controllerCounts are the counters of a target, written by all shards.
type controllerCounts struct {
	refused, displaced, unanswered atomic.Uint64
}

// ControllerCounts counts the effects of the limits on controllers since the target's start.
type ControllerCounts struct {
	Refused    uint64 `json:"refused"`    // Connect commands refused because the host or the subsystem had its maximum
	Displaced  uint64 `json:"displaced"`  // controllers that ended in favour of another one of the same host
	Unanswered uint64 `json:"unanswered"` // controllers without keep alive that ended because their host did not answer a probe
}

// ControllerCounts returns the counters.
func (t *Target) ControllerCounts() ControllerCounts {
	c := &t.controllerCounts
	return ControllerCounts{c.refused.Load(), c.displaced.Load(), c.unanswered.Load()}
}

// A share counts the controllers of a subsystem, as they matter for one of its hosts.
type share struct {
	own     int           // of the host, or in the discovery service of its address
	leaving int           // those of own that are ending
	address int           // of its address, for any host, except those that have authenticated
	taken   int           // of all hosts, within the range of identifiers
	yields  *Controller   // the one of own that ends in favour of another
	since   time.Duration // how long yields has been silent
	near    bool          // yields has the same address
}

// shareOf counts for a controller that joins or, with proven, for one whose host has authenticated. Anyone can use
// the name of a host with a key until authentication is required. So before that a controller counts, and yields,
// only among those of its address that have not authenticated either. Called with the subsystem's mu held.
func shareOf(s *Subsystem, c *Controller, proven bool) (sh share) {
	now := s.target.age()
	for _, o := range s.controllers {
		near := o.peer == c.peer
		if near && !o.authenticated.Load() {
			sh.address++
		}
		if o.id >= c.traits.min && o.id <= c.traits.max {
			sh.taken++
		}
		same := c.hostNQN == o.hostNQN && c.hostID == o.hostID
		switch unproven := c.keyed && !proven; {
		case o == c:
			continue
		case s.discovery:
			same = near
		case unproven:
			same = same && near && !o.trusted()
		default:
			same = same && o.trusted()
		}
		if same {
			sh.count(o, near, now)
		}
	}
	return sh
}

// count adds another controller of the same host. A controller yields if it has been silent for long enough:
// preferably one of the same address, and the one that has been silent for longest. A controller that still has to
// authenticate may always yield, the oldest first.
func (sh *share) count(o *Controller, near bool, now time.Duration) {
	sh.own++
	since, ending := o.presence.silence(now)
	enough := since >= staleAfter
	if !o.trusted() {
		since, enough = now-o.presence.born, true
	}
	switch {
	case ending:
		sh.leaving++
	case enough && (sh.yields == nil || near && !sh.near || near == sh.near && since > sh.since):
		sh.yields, sh.since, sh.near = o, since, near
	}
}

// makeRoom refuses a controller if its host, its address or the subsystem has the maximum number of controllers.
// If the host has a silent one, that one is ended; if only the host's own limit is reached, the new one replaces
// it. Called with the subsystem's mu held.
func makeRoom(s *Subsystem, c *Controller) refusal {
	limit, sh := s.target.cfg.MaxHostControllers, shareOf(s, c, false)
	identifiers := int(c.traits.max-c.traits.min) + 1
	most := min(s.target.cfg.MaxControllers, identifiers)
	free := min(s.target.cfg.MaxControllers-len(s.controllers), identifiers-sh.taken)
	var no refusal
	switch {
	case free <= 0: // those of failed hosts end by their keep alive timeout or unanswered probes
		no = allInUse()
	case sh.own >= 2*limit, sh.own-sh.leaving >= limit && sh.yields == nil:
		no = tooMany()
	case sh.address >= max(limit, most/2):
		no = busy("the host's address has half of the maximum number of controllers", "raise limits.controllers of the target's configuration, or give the hosts keys")
	case free <= most/reserve && (sh.own > 0 || sh.address > 0):
		no = busy("the remaining controller identifiers are reserved for hosts without a controller", moreIdentifiers)
	}
	if sh.yields != nil && (no.refused() || sh.own-sh.leaving >= limit) {
		sh.yields.displace(ownController)
	}
	if no.refused() {
		s.target.controllerCounts.refused.Add(1)
	} else if s.discovery && free <= most/reserve {
		if o := oldestOfLargestNetwork(s); o != nil {
			o.displace("few discovery controllers are left, and its network has most of the others")
		}
	}
	return no
}

// oldestOfLargestNetwork returns the controller of the discovery service that ends when few places are left, which a peer with
// many addresses can cause. It is the oldest one of the network that has the most, not counting addresses from
// which hosts are connected, or recently were. Called with mu held.
func oldestOfLargestNetwork(s *Subsystem) (oldest *Controller) {
	t := s.target
	now, age := time.Now(), t.age()
	counts := make(map[netip.Addr]int)
	all := make([]*Controller, 0, len(s.controllers))
	most := 0
	for _, o := range s.controllers {
		if _, ending := o.presence.silence(age); ending || t.waiting.knows(o.peer, now) {
			continue
		}
		from := originOf(o.peer)
		counts[from]++
		most = max(most, counts[from])
		all = append(all, o)
	}
	for _, o := range all {
		if counts[originOf(o.peer)] == most && (oldest == nil || o.presence.born < oldest.presence.born) {
			oldest = o
		}
	}
	return oldest
}

const moreIdentifiers = "raise limits.controllers of the target's configuration, or max-controller-id of the subsystem"

func allInUse() refusal {
	return busy("all controller identifiers are in use", moreIdentifiers)
}

// makeRoomProven is makeRoom for a controller whose host has just authenticated, and which counts as authenticated
// from then on.
func makeRoomProven(c *Controller) (no refusal) {
	s := c.subsystem
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := shareOf(s, c, true)
	switch {
	case c.traits.refuse && s.connected(c):
		return duplicate(c.subsystem)
	case sh.own-sh.leaving < s.target.cfg.MaxHostControllers:
	case sh.yields != nil:
		sh.yields.displace(ownController)
	default:
		s.target.controllerCounts.refused.Add(1)
		return tooMany()
	}
	c.authenticated.Store(true)
	return refusal{}
}

func tooMany() refusal {
	return busy("the host (for discovery, its address) has the maximum number of controllers", "list them with nvmeof controller list, and disconnect one that is not needed with nvmeof controller remove")
}

const ownController = "its host connected more than its maximum number of controllers"

// displace ends a controller in favour of another one.
func (c *Controller) displace(why string) {
	silent, _ := c.presence.silence(c.target.age())
	c.target.controllerCounts.displaced.Add(1)
	c.target.log.Trouble("controller ended: "+why,
		zap.Stringer("peer", c.admin.remote), zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(c.subsystem.nqn)),
		zap.Uint16("cntlid", uint16(c.id)), zap.Duration("silent_for", silent))
	c.mu.Lock()
	c.dying, c.ready = true, false
	c.mu.Unlock()
	c.dismiss(endReplaced)
}
