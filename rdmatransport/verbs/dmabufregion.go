//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// RegisterDMABuf implements DMABufDomain.
func (d *domain) RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access rdmatransport.Access) (rdmatransport.MemoryRegion, error) {
	if fd < 0 || length <= 0 {
		return nil, fmt.Errorf("verbs: cannot register %d bytes of the dma-buf with descriptor %d", length, fd)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return nil, rdmatransport.ErrClosed
	}
	r := &region{domain: d, iova: iova}
	flags := d.dev.accessFor(access) &^ C.NV_WINDOW_BIND
	var lkey, rkey C.uint32_t
	code := C.nv_reg_dmabuf_mr(d.dev.lib, d.pd, C.int(fd), C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), flags, &r.mr, &lkey, &rkey)
	if code < 0 {
		return nil, dmabufFailure(unix.Errno(-code), d.dev.attrs.Name, length)
	}
	d.add(r, lkey, rkey)
	return r, nil
}

// dmabufFailure tells whether dma-bufs are not supported, and by what, or the dma-buf is invalid.
func dmabufFailure(errno unix.Errno, device string, length int) error {
	switch errno {
	case unix.ENOSYS:
		return fmt.Errorf("verbs: %w: libibverbs of this machine lacks ibv_reg_dmabuf_mr: install rdma-core 34 or newer", ErrNoDMABuf)
	case unix.EOPNOTSUPP, unix.EPROTONOSUPPORT:
		return fmt.Errorf("verbs: %w: %s or its driver does not support it, or the kernel is older than 5.12: %w", ErrNoDMABuf, device, errno)
	}
	return failureOf(errno, fmt.Sprintf("registering %d bytes of a dma-buf", length))
}

var _ DMABufDomain = (*domain)(nil)
