// Package wire is the protocol of network block devices (NBD) as a server speaks it:
// formats of the transmission phase, and the negotiation before it as an engine that
// takes bytes and gives bytes. It does no I/O.
//
// The source is "The NBD protocol", doc/proto.md of the NBD project; names in
// brackets are its sections. All integers are big-endian.
package wire
