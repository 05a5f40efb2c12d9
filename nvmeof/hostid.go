package nvmeof

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A HostIdentity identifies a host to controllers.
type HostIdentity struct {
	NQN NQN
	ID  capsule.HostID
}

// NewHostIdentity returns a random identity. The NQN is made from the host identifier, as nvme-cli does.
func NewHostIdentity() (HostIdentity, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return HostIdentity{}, fmt.Errorf("host identifier: %w", err)
	}
	return HostIdentity{UUIDNQN(id), capsule.HostID(id)}, nil
}

// ParseHostIdentity parses the values of nvme-cli's options --hostnqn and --hostid, and completes them. If one is
// empty, it is derived from the other; an NQN must then contain a UUID. If both are empty, the identity is a new
// random one.
func ParseHostIdentity(nqn, id string) (HostIdentity, error) {
	nqn, id = strings.TrimSpace(nqn), strings.TrimSpace(id)
	if nqn == "" && id == "" {
		return NewHostIdentity()
	}
	var h HostIdentity
	if id != "" {
		u, err := uuid.Parse(id)
		if err != nil {
			return h, fmt.Errorf("host identifier %s is no UUID", Printable(id))
		}
		if u == uuid.Nil {
			return h, fmt.Errorf("host identifier %s: zero is reserved", id)
		}
		h.ID, h.NQN = capsule.HostID(u), UUIDNQN(u)
	}
	if nqn == "" {
		return h, nil
	}
	n, err := AnyNQN(nqn)
	if err != nil {
		return h, fmt.Errorf("host name: %w", err)
	}
	h.NQN = n
	if id == "" {
		u, ok := n.UUID()
		switch {
		case !ok:
			return h, fmt.Errorf("host name %s does not name a UUID: give a host identifier too", n)
		case u == uuid.Nil:
			return h, fmt.Errorf("host name %s names the UUID zero, which is reserved for no host", n)
		}
		h.ID = capsule.HostID(u)
	}
	return h, nil
}
