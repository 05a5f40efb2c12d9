package verbs

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A DMABufDomain is implemented by the protection domains of this package, in addition to package rdmatransport's
// interface.
type DMABufDomain interface {
	rdmatransport.Domain

	// RegisterDMABuf registers a part of a dma-buf: memory of another device, such as a GPU, that the RDMA device
	// then accesses directly (ibv_reg_dmabuf_mr(3)). The part is length bytes at offset. The descriptor fd may be
	// closed afterwards. Peers refer to the first byte by iova, which must equal offset modulo the page size. Scatter
	// lists do so too: their Buf must have that address. So iova is the address at which the buffer is mapped in this
	// process or, if it cannot be mapped, of address space reserved with mmap(2) and PROT_NONE. The processor does
	// not access that memory, except for sends with FlagInline.
	//
	// The region's Bytes are nil, and memory windows cannot be bound to it, because the kernel does not allow that.
	// The error is [ErrNoDMABuf] if libibverbs, the kernel or the device does not support dma-bufs. The caller can
	// then register ordinary memory and copy.
	RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access rdmatransport.Access) (rdmatransport.MemoryRegion, error)
}

// ErrNoDMABuf means that dma-bufs are not supported here.
var ErrNoDMABuf = errors.New("dma-bufs cannot be registered")
