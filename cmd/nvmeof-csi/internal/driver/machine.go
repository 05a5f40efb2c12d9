package driver

import (
	"context"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/mounts"
)

// A Fabric makes devices of volumes.
type Fabric interface {
	// Attach returns the device of a volume, connecting to its target if need be.
	Attach(ctx context.Context, d fabric.Disk) (device string, err error)
	// Find returns the device of a volume; empty: there is none.
	Find(u uuid.UUID) (device string, err error)
	// Hold is Find, and keeps the device's name from other disks until what it returns is closed.
	Hold(u uuid.UUID) (*fabric.Held, error)
	// ReadOnly reports whether nobody on this machine can write to a device.
	ReadOnly(device string) bool
	// Detach gives a device up, and the connection to the target with its last one. One that is not
	// there is none to give up.
	Detach(ctx context.Context, u uuid.UUID) error
	// Tidy ends the connections of this driver, and of those that were ended before it, that no volume uses.
	Tidy(ctx context.Context) error
	// Await waits until a device has at least so many bytes, and returns how many it has.
	Await(ctx context.Context, device string, size int64) (int64, error)
}

// Mounts are the file systems of a node.
type Mounts interface {
	// Format mounts a device, whose name is kept from other disks, at a folder, which is made, with a file system of
	// that type: one that is made if the device has none and readOnly is not set.
	Format(ctx context.Context, device, at, fs string, options []string, readOnly bool) error
	// Bind shows a folder or, as a file, a device at another path, which is made.
	Bind(ctx context.Context, source, at string, device, readOnly bool) error
	// Protect has nobody write to what Bind shows at a path. Bind does so in two steps, and may have been ended
	// between them.
	Protect(ctx context.Context, at string) error
	// Mounted reports whether something is mounted at a path; one that is not there has nothing.
	Mounted(at string) (bool, error)
	// Holds reports whether the file system that is mounted at a path is that of a device: another one had
	// the place of the device, which is gone, as that of a connection that was given up.
	Holds(at, device string) (bool, error)
	// Shown reports whether Bind shows something at a path, and at which others it does.
	Shown(source, at string) (there bool, elsewhere []string, err error)
	// Elsewhere are the paths but one at which a device, or its file system, is shown or mounted.
	Elsewhere(device, but string) ([]string, error)
	// Unmount takes away what is mounted at a path and, with remove, the path.
	Unmount(ctx context.Context, at string, remove bool) error
	// Grow makes the file system of a device as large as the device.
	Grow(ctx context.Context, device, at string) error
	// Usage is that of the file system at a path.
	Usage(at string) (mounts.Usage, error)
}
