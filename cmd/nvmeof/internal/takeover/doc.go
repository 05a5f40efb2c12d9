// Package takeover carries a target from one process to another over a unix socket: its
// document, the state of its hosts' associations, and the descriptors of its sockets and memory.
//
//	new process                         running process
//	listens at a socket of its own
//	POST /v1/takeover {socket}     →    connects, sends [Hello]
//	prepares, sends ready          →    suspends commands, exports, closes everything
//	opens everything, adopts       ←    sends the state and the descriptors
//	sends serving, lets hosts go on →   ends
//
// Whoever has asked and does not say that it serves, or ends, has taken nothing: the running
// process goes on with its own state. A message is a frame: what it is and its length, each of 32
// bits in little-endian order, and that many bytes. Descriptors come with the first byte of a
// frame (SCM_RIGHTS), in the order in which the state counts them.
package takeover
