package target

import (
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
)

// Reservations identify hosts by their identifiers (NVMe base 2.0, 8.19), which are no secret. So each identifier
// belongs to one host NQN at a time, in all subsystems: to the NQN that is registered with it, or else to the NQN
// that is connected with it, or that authenticated with it last.
//
// A registration by a host without a key excludes a host with a key from that volume only: otherwise any host that
// is allowed at one subsystem could exclude it from all others. While the host with the key is away, the
// registered host may return where it is registered, and yields when the other one returns.
//
// The UUID in the NQN of a host with a key, which most hosts use as their identifier, belongs to that host, even
// before its first connection: otherwise another host could register with it first, and exclude it permanently.

const ownIdentifier = "give each host an NQN and an identifier of its own, in /etc/nvme/hostnqn and /etc/nvme/hostid"

// own assigns the host identifier to the NQN of the controller's host, or refuses with the NQN that has it. For a
// host with a key, that waits until it has authenticated: an earlier refusal would disclose other hosts.
func (c *Controller) own(proven bool) refusal {
	if c.discovery() {
		return refusal{}
	}
	claim := access.Claim{ID: c.hostID, NQN: c.hostNQN, Proven: c.keyed, Registered: c.registeredHere()}
	if nqn := nvmeof.UUIDNQN(uuid.UUID(c.hostID)); nqn != c.hostNQN && (proven || !c.keyed) && c.target.keyed(nqn) {
		return takenIdentifier("the UUID in the NQN of another host, which has a key: " + string(nqn))
	}
	if nqn, found := c.registeredAs(); found {
		return othersIdentifier("registered for reservations", nqn)
	}
	if c.keyed && !proven {
		if nqn, taken := c.target.identifiers.Other(claim, c.target.keyed); taken {
			return othersIdentifier("used", nqn)
		}
		return refusal{}
	}
	holder, displaced, ok := c.target.identifiers.Take(claim, c.target.keyed)
	switch {
	case !ok:
		return othersIdentifier("used", holder)
	case displaced != "":
		c.target.dismiss(c.hostID, c.hostNQN, "its host identifier belongs to "+string(c.hostNQN)+", which has authenticated", nil)
	}
	c.owns = true
	return refusal{}
}

// othersIdentifier refuses a host whose identifier belongs to another host. That one may disconnect, hence without
// Do Not Retry.
func othersIdentifier(how string, nqn nvmeof.NQN) refusal {
	return takenIdentifier(how + " by another host, " + string(nqn))
}

func takenIdentifier(why string) refusal {
	return refusal{status: capsule.StatusConnectInvalidHost, at: badHostID, reason: "host identifier is " + why, remedy: ownIdentifier}
}

// releaseIdentifier undoes own.
func (c *Controller) releaseIdentifier() {
	if c.owns {
		c.target.identifiers.Release(c.hostID, c.hostNQN)
	}
}

// keyed reports whether a host has a key in any subsystem.
func (t *Target) keyed(nqn nvmeof.NQN) bool {
	for _, s := range t.Subsystems() {
		if c := s.hostConfig(nqn); c.authenticates() {
			return true
		}
	}
	return false
}

// registeredAs returns the NQN of another host that is registered with the same host identifier and therefore
// excludes the controller's host.
func (c *Controller) registeredAs() (other nvmeof.NQN, found bool) {
	for _, s := range c.target.Subsystems() {
		for ns := range s.table().Listed { // includes those that are away, and keep their reservations
			r := ns.Reservations()
			if r == nil {
				continue
			}
			other, found = r.State().Other(c.hostID, c.hostNQN)
			if found && c.yields(other, s == c.subsystem) {
				return other, true
			}
		}
	}
	return "", false
}

// registeredHere reports whether the controller's host is registered with its identifier in the subsystem.
func (c *Controller) registeredHere() bool {
	for ns := range c.subsystem.table().Listed {
		if r := ns.Reservations(); r != nil && r.State().Registered(c.hostID, c.hostNQN) {
			return true
		}
	}
	return false
}

// yields reports whether the controller's host may not use its identifier because another NQN is registered with
// it, with a volume of the controller's subsystem (here) or elsewhere.
func (c *Controller) yields(other nvmeof.NQN, here bool) bool {
	return here || !c.keyed || c.target.keyed(other)
}

// dismissOthers ends the controllers of hosts that use an identifier with which another host is registered for the
// volume of a namespace being added. It returns when their queues no longer execute commands.
func (s *Subsystem) dismissOthers(v *storage.Volume) {
	if v == nil {
		return // no device was added yet, so no host is connected
	}
	t, dismissed := s.target, 0
	for _, r := range v.Reservations.State().Registrants {
		if r.NQN != "" {
			dismissed += t.dismiss(r.Host, r.NQN, "its host identifier is registered for reservations of "+v.Name+" by "+string(r.NQN),
				func(c *Controller) bool { return c.yields(r.NQN, c.subsystem == s || c.subsystem.has(v)) })
		}
	}
	if dismissed > 0 {
		t.barrier() // for the controllers' shards
		t.barrier() // for those of their queues
	}
}

// has reports whether a namespace of the subsystem has the volume.
func (s *Subsystem) has(v *storage.Volume) bool {
	for ns := range s.table().All {
		if ns.Volume == v {
			return true
		}
	}
	return false
}

// barrier waits until every shard has called the functions that it was given before.
func (t *Target) barrier() {
	t.mu.Lock()
	devices := t.devices
	t.mu.Unlock()
	for _, d := range devices {
		for _, w := range d.workers {
			_ = w.shard.Call(func() {}) // a shard that has ended has no queues
		}
	}
}

// dismiss ends the controllers with a host identifier and an NQN other than but, those that which selects, or
// all if which is nil. It returns how many.
func (t *Target) dismiss(id capsule.HostID, but nvmeof.NQN, why string, which func(*Controller) bool) (dismissed int) {
	for _, s := range t.Subsystems() {
		s.mu.Lock()
		for _, c := range s.controllers {
			if c.hostID != id || c.hostNQN == but || which != nil && !which(c) {
				continue
			}
			dismissed++
			t.log.Trouble("host disconnected", zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(s.nqn)),
				zap.String("reason", why), zap.String("remedy", ownIdentifier))
			c.dismiss(why)
		}
		s.mu.Unlock()
	}
	return dismissed
}
