// Package hosts manages the NVMe hosts that a process runs: one on a device of its own while a command runs
// ([Session]), or one per local address, shared by all connections that the process keeps ([Pool]).
//
// It also handles waiting for a controller: the delays between attempts ([Retry]), the messages that a user sees
// meanwhile ([Silence]), and the explanation of a rejection ([Explain]).
package hosts
