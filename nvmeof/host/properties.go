package host

import (
	"context"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// Properties accesses a controller's properties with the commands Property Get and Property Set (NVMe base 2.0, 6.5 and
// 6.6).
type Properties struct{ admin *association.Queue }

// Properties returns access to the controller's properties.
func (c *Controller) Properties() Properties { return Properties{c.queues.Admin()} }

// Get reads a property.
func (ps Properties) Get(ctx context.Context, o capsule.PropertyOffset) (uint64, error) {
	cmd := capsule.FabricsCommand(capsule.FabricsPropertyGet)
	capsule.Property{Size: o.Size(), Offset: uint32(o)}.Put(&cmd)
	done, err := execute(ctx, nil, ps.admin, cmd, nil)
	if err != nil {
		return 0, fmt.Errorf("property %v: %w", o, err)
	}
	if o.Size() == 4 {
		return uint64(done.DW0()), nil
	}
	return done.Result, nil
}

// Set writes a property, which must be one that is defined for NVMe over Fabrics.
func (ps Properties) Set(ctx context.Context, o capsule.PropertyOffset, v uint64) error {
	cmd := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: o.Size(), Offset: uint32(o), Value: v}.Put(&cmd)
	if _, err := execute(ctx, nil, ps.admin, cmd, nil); err != nil {
		return fmt.Errorf("property %v: %w", o, err)
	}
	return nil
}
