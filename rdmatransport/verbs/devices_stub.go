//go:build !(verbs && cgo && linux)

package verbs

// Library would load the RDMA libraries; in this build it always returns
// [ErrNotBuilt].
func Library() error { return ErrNotBuilt }

// Devices would ask all RDMA devices; in this build it always returns [ErrNotBuilt].
func Devices() ([]DeviceInfo, error) { return nil, ErrNotBuilt }
