package uring

// The kernel's interface, io_uring(7), as far as it is used here. Names are
// those of linux/io_uring.h without the prefix IORING.

const (
	setupRDisabled    = 1 << 6  // starts disabled
	setupSubmitAll    = 1 << 7  // 5.18: an entry in error does not end a batch
	setupCoopTaskrun  = 1 << 8  // 5.19: completing does not interrupt the thread
	setupTaskrunFlag  = 1 << 9  // 5.19: sqTaskrun says that there is work to run
	setupSingleIssuer = 1 << 12 // 6.0: one thread submits
	setupDeferTaskrun = 1 << 13 // 6.1: completions are made in its calls only

	featSingleMmap    = 1 << 0 // 5.4
	featNodrop        = 1 << 1 // 5.5
	featNativeWorkers = 1 << 9 // 5.12; implies every operation used here

	enterGetevents = 1 << 0

	sqCQOverflow = 1 << 1
	sqTaskrun    = 1 << 2

	cqEventfdDisabled = 1 << 0

	registerFiles       = 2
	registerEventfd     = 4
	registerFilesUpdate = 6 // 5.5
	registerEnableRings = 12

	registerBuffers2      = 15     // 5.13
	registerBuffersUpdate = 16     // 5.13
	rsrcSparse            = 1 << 0 // 5.19

	offRings = 0
	offSQEs  = 0x10000000

	opNop        = 0
	opFsync      = 3
	opReadFixed  = 4
	opWriteFixed = 5
	opFallocate  = 17
	opRead       = 22
	opWrite      = 23

	fsyncDatasync = 1 << 0

	sqeFixedFile = 1 << 0
)

// params of io_uring_setup(2).
type params struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFD         uint32
	_            [3]uint32
	sq           sqOffsets
	cq           cqOffsets
}

// sqOffsets are places in the mapping of the rings.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	_                                                           uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	_                                                           uint64
}

// filesUpdate replaces files that are registered.
type filesUpdate struct {
	offset, _ uint32
	fds       uint64 // the address of their descriptors; -1 takes one away
}

// sqe is a submission queue entry.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	length   uint32
	opFlags  uint32
	userData uint64
	bufIndex uint16
	persona  uint16
	spliceFD int32
	addr3    uint64
	_        uint64
}

// cqe is a completion queue entry.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}
