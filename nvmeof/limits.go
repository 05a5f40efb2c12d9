package nvmeof

import "time"

// Limits and defaults of both hosts and targets.
const (
	AdminQueueDepth   = 32   // entries of an admin queue; every controller grants this minimum
	DefaultQueueDepth = 128  // entries of an I/O queue
	MaxQueueDepth     = 1024 // entries of an I/O queue
	MaxIOQueues       = 128  // I/O queues of one controller
	MaxTransfer       = 1 << 20
	MaxInCapsule      = 16 << 10 // in-capsule data, in bytes
	MaxNamespaces     = 4096     // namespaces of a subsystem of a target; a host can be configured to open more

	DefaultKeepAlive   = 5 * time.Second  // KATO of an I/O controller
	DiscoveryKeepAlive = 30 * time.Second // KATO of a persistent discovery controller
)
