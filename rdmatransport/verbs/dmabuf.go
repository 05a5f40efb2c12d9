package verbs

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A DMABufDomain is what a protection domain of this package can do beside the
// contract; its domains implement it.
type DMABufDomain interface {
	rdmatransport.Domain

	// RegisterDMABuf makes a part of a dma-buf usable: memory of another device, a
	// GPU's say, that the RDMA device then reads and writes without a detour
	// (ibv_reg_dmabuf_mr(3)). The part is length bytes from offset; the descriptor
	// fd may be closed afterwards. Peers name the first byte by iova, which agrees
	// with offset modulo the page size. So do scatter lists, whose Buf must lie at
	// that address: iova is the address of the buffer's mapping in this process, or
	// of address space reserved with mmap(2) and PROT_NONE where it cannot be mapped.
	// What lies there is not touched by the processor, unless sent FlagInline.
	//
	// The region's Bytes are nil, and it takes no memory windows, which the kernel
	// does not allow. The error is [ErrNoDMABuf] where libibverbs, the kernel or the
	// device does not have it; register ordinary memory then, and copy.
	RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access rdmatransport.Access) (rdmatransport.MemoryRegion, error)
}

// ErrNoDMABuf says that a dma-buf cannot be registered here.
var ErrNoDMABuf = errors.New("dma-bufs cannot be registered")
