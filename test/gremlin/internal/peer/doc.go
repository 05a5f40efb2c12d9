// Package peer is a raw peer of RoCEv2 and NVMe: an [Endpoint] is an address with a socket,
// and a [Conn] a queue pair of it, or what an attack makes of one. Both behave as a correct
// peer does, on top of package packet, until a function of theirs is replaced: then they
// answer what the attack wants.
//
// An endpoint belongs to one goroutine. Nothing is sent or received but inside its calls, so
// that an attack knows what happened before what.
package peer
