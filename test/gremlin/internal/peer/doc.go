// Package peer is a raw peer of RoCEv2 and NVMe. An [Endpoint] is an address with a socket, a [Conn] is a queue pair of
// it. Both use package packet and behave as a correct peer does, until an attack replaces one of their functions.
//
// An endpoint belongs to one goroutine. It sends and receives only within calls of its methods, so that an attack knows
// the order of events.
package peer
