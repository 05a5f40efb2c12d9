package nvmeof

import "time"

// Limits and defaults of both roles.
const (
	AdminQueueDepth   = 32   // entries of an admin queue: the minimum that every controller supports
	DefaultQueueDepth = 128  // entries of an I/O queue
	MaxQueueDepth     = 1024 // entries of an I/O queue
	MaxIOQueues       = 128  // of one controller
	MaxTransfer       = 1 << 20
	MaxInCapsule      = 16 << 10 // in-capsule data of a command, in bytes
	MaxNamespaces     = 4096     // of a target's subsystem; a host may be configured to open more

	DefaultKeepAlive   = 5 * time.Second  // KATO of an I/O controller
	DiscoveryKeepAlive = 30 * time.Second // KATO of a persistent discovery controller
)
