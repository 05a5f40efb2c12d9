//go:build verbs && cgo && linux

package verbs

// #include "shimdevices.h"
import "C"

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Library loads the RDMA libraries, which stay loaded. It fails with a [*LibraryError].
func Library() error {
	lib, err := loadLibrary()
	if err == nil {
		C.nv_close_lib(lib)
	}
	return err
}

// Devices queries all RDMA devices known to libibverbs, which are those with a provider library. It fails if the
// libraries are missing or the kernel does not support RDMA.
func Devices() ([]DeviceInfo, error) {
	if err := Library(); err != nil {
		return nil, err
	}
	const most = 64
	found := make([]C.struct_nv_device_info, most)
	n := C.nv_list_devices(&found[0], most)
	if err := failure(n, "listing the RDMA devices"); err != nil {
		return nil, err
	}
	infos := make([]DeviceInfo, n)
	for i := range infos {
		infos[i] = deviceInfo(&found[i])
	}
	return infos, nil
}

func deviceInfo(d *C.struct_nv_device_info) DeviceInfo {
	info := DeviceInfo{Name: C.GoString(&d.name[0])}
	if d.error < 0 {
		info.Err = failureOf(unix.Errno(-d.error), fmt.Sprintf("opening the RDMA device %s", info.Name))
		return info
	}
	info.MaxQP, info.MaxQueueDepth, info.MaxCQE = int(d.max_qp), int(d.max_qp_wr), int(d.max_cqe)
	info.MaxMR, info.MaxMRBytes, info.MaxSRQ = int(d.max_mr), uint64(d.max_mr_size), int(d.max_srq)
	info.MaxReadsIn, info.MaxReadsOut, info.MaxWindows = int(d.max_reads_in), int(d.max_reads_out), int(d.max_mw)
	for _, mtu := range d.mtu[:min(int(d.ports), len(d.mtu))] {
		info.ActiveMTU = append(info.ActiveMTU, int(mtu))
	}
	return info
}
