package verbs

// DeviceInfo is what an RDMA device says of itself (ibv_query_device(3)).
type DeviceInfo struct {
	Name string // as in "mlx5_0"
	// Err says why the device could not be asked; then nothing but Name is set.
	Err error

	MaxQP         int
	MaxQueueDepth int // requests of one queue of a queue pair
	MaxCQE        int // entries of a completion queue
	MaxMR         int
	MaxMRBytes    uint64
	MaxSRQ        int
	MaxReadsIn    int // of a queue pair: responder resources, IRD
	MaxReadsOut   int // of a queue pair: initiator depth, ORD
	MaxWindows    int

	ActiveMTU []int // bytes of payload, of ports from 1 on; 0: not known
}
