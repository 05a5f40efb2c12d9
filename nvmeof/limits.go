package nvmeof

import "time"

// Limits and defaults that both roles keep to.
const (
	AdminQueueDepth   = 32   // entries of an admin queue, the minimum that all grant
	DefaultQueueDepth = 128  // entries of an I/O queue
	MaxQueueDepth     = 1024 // entries of an I/O queue
	MaxIOQueues       = 128  // of one controller
	MaxTransfer       = 1 << 20
	MaxInCapsule      = 16 << 10 // data beside a command, in bytes
	MaxNamespaces     = 4096     // of a subsystem that a target has; a host may be told to open more of another's

	DefaultKeepAlive   = 5 * time.Second  // KATO of an I/O controller
	DiscoveryKeepAlive = 30 * time.Second // KATO of a persistent discovery controller
)
