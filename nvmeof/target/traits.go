package target

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// traits has the configuration that a subsystem and its controllers report. It is immutable: a change creates
// another one, for controllers that connect later.
type traits struct {
	serial, model string
	refuse        bool // RefuseDuplicates
	version       capsule.Version
	min, max      capsule.ControllerID
}

// newTraits checks the configuration.
func newTraits(t *Config, c SubsystemConfig) (*traits, error) {
	if c.Serial == "" {
		// Stable across restarts, since hosts recognize the paths to a subsystem by it.
		sum := sha256.Sum256([]byte(c.NQN))
		c.Serial = hex.EncodeToString(sum[:10])
	}
	if c.Model == "" {
		c.Model = "nvmeof"
	}
	if len(c.Serial) > 20 || len(c.Model) > 40 {
		return nil, fmt.Errorf("subsystem %s: serial number %q or model %q is too long: at most 20 and 40 characters",
			c.NQN, c.Serial, c.Model)
	}
	c.MinController = cmp.Or(c.MinController, capsule.ControllerIDMin)
	c.MaxController = cmp.Or(c.MaxController, capsule.ControllerIDMax)
	if c.MinController > c.MaxController || c.MaxController > capsule.ControllerIDMax {
		return nil, fmt.Errorf("subsystem %s: controller identifiers %d to %d: want a range within %d to %d",
			c.NQN, c.MinController, c.MaxController, capsule.ControllerIDMin, capsule.ControllerIDMax)
	}
	first, last := max(c.MinController, t.Controllers.First), min(c.MaxController, t.Controllers.Last)
	if first > last {
		return nil, fmt.Errorf("subsystem %s: none of its controller identifiers %d to %d is one of the target's, %v",
			c.NQN, c.MinController, c.MaxController, t.Controllers)
	}
	c.Version = cmp.Or(c.Version, state.Version)
	if c.Version < capsule.MakeVersion(1, 2, 1) || c.Version > state.Version { // 1.2.1 is the first with fabrics
		return nil, fmt.Errorf("subsystem %s: NVMe version %v: want 1.2.1 to %v", c.NQN, c.Version, state.Version)
	}
	return &traits{c.Serial, c.Model, c.RefuseDuplicates, c.Version, first, last}, nil
}

// Configure changes the configuration given to AddSubsystem, except the name. It applies to controllers that
// connect later. If State changes, the current record replaces that of the new store; if the old one could not be
// read yet, the record of the new one is used.
func (s *Subsystem) Configure(c SubsystemConfig) error {
	c.NQN = s.nqn
	x, err := newTraits(&s.target.cfg, c)
	if err == nil {
		err = s.moveLife(c.State)
	}
	if err == nil {
		s.traits.Store(x)
	}
	return err
}
