// Package takeover moves a target from one process to another over a unix socket: its document, the state of its
// hosts' associations, and the descriptors of its sockets and memory.
//
//	new process                         running process
//	listens at a socket of its own
//	POST /v1/takeover {socket}     →    connects, sends [Hello]
//	prepares, sends ready          →    suspends commands, exports, closes everything
//	opens everything, adopts       ←    sends the state and the descriptors
//	sends serving, lets hosts go on →   ends
//
// If the new process ends, or does not send serving, it has taken nothing over, and the running process continues with
// its own state. A message is a frame: its type and its length, each 32 bits in little-endian order, followed by that
// many bytes. Descriptors are sent with the first byte of a frame (SCM_RIGHTS), in the order of their counts in the
// state.
package takeover
