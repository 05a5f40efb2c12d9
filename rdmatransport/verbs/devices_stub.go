//go:build !(verbs && cgo && linux)

package verbs

// Library loads the RDMA libraries; in this build it always returns [ErrNotBuilt].
func Library() error { return ErrNotBuilt }

// Devices queries all RDMA devices; in this build it always returns [ErrNotBuilt].
func Devices() ([]DeviceInfo, error) { return nil, ErrNotBuilt }
