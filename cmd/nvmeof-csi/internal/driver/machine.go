package driver

import (
	"context"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/mounts"
)

// A Fabric makes devices of volumes.
type Fabric interface {
	// Attach returns the device of a volume, and connects to its target if necessary.
	Attach(ctx context.Context, d fabric.Disk) (device string, err error)
	// Find returns the device of a volume; "" if there is none.
	Find(u uuid.UUID) (device string, err error)
	// Hold is Find, and reserves the device's name until the returned value is closed.
	Hold(u uuid.UUID) (*fabric.Held, error)
	// ReadOnly reports whether nothing on this machine can write to a device.
	ReadOnly(device string) bool
	// Detach gives up a device, and with the last device the connection to the target. It succeeds if there is no
	// device.
	Detach(ctx context.Context, u uuid.UUID) error
	// Tidy ends the connections of this driver and of earlier ones that were killed, if no volume uses them, and
	// connects again by paths that were given up, if a volume uses others of them.
	Tidy(ctx context.Context) error
	// Await waits until a device has at least size bytes, and returns its size.
	Await(ctx context.Context, device string, size int64) (int64, error)
}

// Mounts manages the file systems of a node.
type Mounts interface {
	// Format mounts a device, whose name is reserved, at a directory, which it creates, with a file system of the given
	// type. It creates the file system if the device has none and readOnly is not set.
	Format(ctx context.Context, device, at, fs string, options []string, readOnly bool) error
	// Bind mounts a directory, or with device set a device as a file, at another path, which it creates.
	Bind(ctx context.Context, source, at string, device, readOnly bool) error
	// Protect makes a path mounted by Bind read-only. Bind does so in a second step, and may have been killed before
	// it.
	Protect(ctx context.Context, at string) error
	// Mounted reports whether something is mounted at a path; false if the path does not exist.
	Mounted(at string) (bool, error)
	// Holds reports whether the file system mounted at a path is that of a device. It may be that of an earlier device
	// of the same name, whose connection was given up.
	Holds(at, device string) (bool, error)
	// Shown reports whether source is mounted at a path by Bind, and at which other paths it is.
	Shown(source, at string) (there bool, elsewhere []string, err error)
	// Elsewhere returns the paths other than but at which a device, or its file system, is mounted.
	Elsewhere(device, but string) ([]string, error)
	// Unmount unmounts a path and, with remove, removes it.
	Unmount(ctx context.Context, at string, remove bool) error
	// Grow enlarges the file system of a device to the size of the device.
	Grow(ctx context.Context, device, at string) error
	// Usage returns the usage of the file system at a path.
	Usage(at string) (mounts.Usage, error)
}
