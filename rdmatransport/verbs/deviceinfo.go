package verbs

// DeviceInfo describes an RDMA device as it reports itself (ibv_query_device(3)).
type DeviceInfo struct {
	Name string // as in "mlx5_0"
	// Err is the reason why the device could not be queried. If it is set, only Name is valid.
	Err error

	MaxQP         int
	MaxQueueDepth int // work requests in one queue of a queue pair
	MaxCQE        int // maximum number of entries of a completion queue
	MaxMR         int
	MaxMRBytes    uint64
	MaxSRQ        int
	MaxReadsIn    int // per queue pair: responder resources, IRD
	MaxReadsOut   int // per queue pair: initiator depth, ORD
	MaxWindows    int

	ActiveMTU []int // bytes of payload, for ports from 1 on; 0: unknown
}
