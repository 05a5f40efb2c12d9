package rc

import (
	"math/bits"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Memory returns how many bytes a queue pair with that configuration takes, without inline data. A ring of completions
// may be twice as long as what is reserved.
func Memory(cfg *Config) int {
	receives := cfg.MaxRecv
	if cfg.Shared != nil {
		receives = 1
	}
	const sge = int(unsafe.Sizeof(rdmatransport.SGE{}))
	return int(unsafe.Sizeof(QP{})) +
		slots(cfg.MaxSend)*(int(unsafe.Sizeof(sendWQE{}))+cfg.MaxSGE*sge) +
		slots(receives)*(int(unsafe.Sizeof(recvWQE{}))+cfg.MaxSGE*sge) +
		2*(cfg.MaxSend+receives)*int(unsafe.Sizeof(rdmatransport.Completion{}))
}

// slots returns the length of the ring of a queue.
func slots(depth int) int { return 1 << bits.Len(uint(depth-1)) }
