//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/internal/numa"
)

// Built reports whether this program includes the transport.
const Built = true

const (
	maxDepth  = 8192
	maxShared = 1 << 16
	maxSGE    = 16
	maxReads  = 128     // the RDMA CM's field has 8 bits; more is of no use
	maxLength = 1 << 30 // upper limit of a message's bytes
)

// Open opens the RDMA device that has the address cfg.Addr. It fails with a [*LibraryError] if this machine has no
// RDMA libraries, and with a [*NoDeviceError] if the address belongs to no RDMA device.
func Open(cfg Config) (rdmatransport.Device, error) {
	if cfg.shards() < 1 || cfg.shards() > MaxShards {
		return nil, fmt.Errorf("verbs: %d shards, want 1 to %d", cfg.Shards, MaxShards)
	}
	d := &device{
		cfg: cfg, addr: cfg.Addr.Unmap(), start: time.Now(), last: anchorToken,
		domains: map[*domain]struct{}{}, conns: map[token]*connection{}, listeners: map[token]*listener{},
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// DeviceName returns the name of the RDMA device that has an address, such as "rxe0", or an error if there is none.
func DeviceName(addr netip.Addr) (string, error) {
	d := &device{addr: addr.Unmap()}
	err := d.bind()
	if d.lib == nil {
		return "", err
	}
	defer d.release()
	if err != nil {
		return "", err
	}
	name, _ := d.deviceOf(d.anchor)
	return name, nil
}

// bind finds the device by binding an identifier of the RDMA CM to the address.
func (d *device) bind() (err error) {
	if d.addr.IsUnspecified() || !d.addr.IsValid() {
		return fmt.Errorf("verbs: %v does not belong to a single device: give the address of an RDMA interface", d.addr)
	}
	if d.lib, err = loadLibrary(); err != nil {
		return err
	}
	var fd C.int
	if code := C.nv_create_channel(d.lib, &d.channel, &fd); code < 0 {
		d.channel = nil
		switch errno := unix.Errno(-code); {
		case errors.Is(errno, unix.ENODEV): // librdmacm looks for devices first
			return &NoDeviceError{d.addr, errors.New("this machine has no RDMA device at all")}
		case errors.Is(errno, unix.ENOENT):
			return fmt.Errorf("verbs: the kernel's RDMA CM is missing: %w: load the module rdma_ucm (modprobe rdma_ucm)", errno)
		}
		return failure(code, "opening the kernel's RDMA CM, /dev/infiniband/rdma_cm")
	}
	d.cmFD = int(fd)
	if code := C.nv_create_id(d.lib, d.channel, C.uint64_t(anchorToken), &d.anchor); code < 0 {
		d.anchor = nil
		return failure(code, "creating an identifier of the RDMA CM")
	}
	at := toC(netip.AddrPortFrom(d.addr, 0))
	if code := C.nv_bind(d.lib, d.anchor, &at); code < 0 {
		return &NoDeviceError{d.addr, unix.Errno(-code)}
	}
	if name, _ := d.deviceOf(d.anchor); name == "" {
		return &NoDeviceError{d.addr, nil}
	}
	return nil
}

// deviceOf returns the name and port of the device that an identifier is bound to, or "" if there is none.
func (d *device) deviceOf(id *C.struct_rdma_cm_id) (string, int) {
	var name [64]C.char
	var port C.uint8_t
	if C.nv_id_device(d.lib, id, &name[0], &port) < 0 {
		return "", 0
	}
	return C.GoString(&name[0]), int(port)
}

func (d *device) open() error {
	err := d.bind()
	if err == nil {
		var fd C.int
		if code := C.nv_open_device(d.lib, d.anchor, &d.context, &fd, &d.hw); code < 0 {
			d.context = nil
			err = failure(code, "opening the RDMA device of "+d.addr.String())
		}
		d.asyncFD = int(fd)
	}
	if err != nil {
		if d.lib != nil {
			d.release()
		}
		return err
	}
	d.attrs, d.path = d.describe(), C.GoString(&d.hw.path[0])
	return nil
}

// describe converts the device's attributes.
func (d *device) describe() rdmatransport.Attrs {
	hw := &d.hw
	windows := hw.windows != 0 && (hw.rxe == 0 || d.cfg.LooseWindows)
	// One request is reserved for the end, and a bind may need an invalidation before it.
	depth := int(hw.max_qp_wr) - 1
	if windows {
		depth /= 2
	}
	length := maxLength
	if hw.max_message > 0 {
		length = int(min(uint64(hw.max_message), maxLength))
	}
	return rdmatransport.Attrs{
		Provider: "verbs", Name: fmt.Sprintf("%s port %d", C.GoString(&hw.name[0]), hw.port),
		MaxQueueDepth: min(depth, maxDepth), MaxShared: min(int(hw.max_srq_wr), maxShared), MaxSGE: min(int(hw.max_sge), maxSGE),
		MaxReadSGE: min(int(hw.max_read_sge), maxSGE), MaxInline: int(hw.max_inline),
		MaxMessage: length, MaxReadsOut: min(int(hw.max_reads_out), maxReads), MaxReadsIn: min(int(hw.max_reads_in), maxReads),
		Shards: d.cfg.shards(), Windows: windows, Atomics: hw.atomics != 0, Immediate: hw.iwarp == 0, Pins: true,
		Node: numa.OfDevice(os.DirFS("/"), strings.TrimPrefix(path.Join(C.GoString(&hw.path[0]), "device"), "/")),
	}
}
