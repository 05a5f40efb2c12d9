// Package wire implements the server side of the Network Block Device protocol (NBD): the message formats, and the
// negotiation as a state machine that takes and returns bytes. It does no I/O.
//
// The source is "The NBD protocol", doc/proto.md of the NBD project; names in brackets are its sections. All integers
// are big-endian.
package wire
