//go:build verbs && cgo && linux && !race

package verbs_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// TestDMABuf registers a dma-buf, or requires the error that this device does not support them.
func TestDMABuf(t *testing.T) {
	if *addr == "" {
		t.Skip("needs an RDMA device: -addr")
	}
	n := newNode(t)
	defer n.device.Close()
	const size = 1 << 16
	domain := n.domain.(verbs.DMABufDomain)
	const iova = 1 << 40
	r, err := domain.RegisterDMABuf(newDMABuf(t, size), 0, size, iova, rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteRead)
	switch {
	case errors.Is(err, verbs.ErrNoDMABuf):
		t.Log(err)
		if name, _, _ := strings.Cut(n.device.Attrs().Name, " "); !strings.Contains(err.Error(), name) {
			t.Errorf("%v: want the name of the device, %s, in it", err, name)
		}
	case err != nil:
		t.Error(err)
	default:
		if r.IOVA() != iova || r.Bytes() != nil || r.LKey() == 0 {
			t.Errorf("a region at %#x with %d bytes and key %#x", r.IOVA(), len(r.Bytes()), r.LKey())
		}
		if err := r.Deregister(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ fd, length int }{{-1, size}, {0, 0}, {0, -1}} {
		if _, err := domain.RegisterDMABuf(c.fd, 0, c.length, 0, 0); err == nil || errors.Is(err, verbs.ErrNoDMABuf) {
			t.Errorf("%d bytes of descriptor %d: %v", c.length, c.fd, err)
		}
	}
}

// newDMABuf creates a dma-buf of ordinary memory (/dev/udmabuf). If the kernel has no such device, it returns another
// descriptor.
func newDMABuf(t *testing.T, size int64) int {
	t.Helper()
	memory, err := unix.MemfdCreate("dmabuf", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(memory) })
	if err := unix.Ftruncate(memory, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	maker, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		t.Log(err)
		return memory
	}
	defer maker.Close()
	// UDMABUF_CREATE of linux/udmabuf.h, with its struct.
	const create = 0x40187542
	request := struct {
		memory, flags uint32
		offset, size  uint64
	}{memory: uint32(memory), size: uint64(size)}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, maker.Fd(), create, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { unix.Close(int(fd)) })
	return int(fd)
}
