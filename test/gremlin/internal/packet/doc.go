// Package packet is the gremlin's own codec of RoCEv2: the BTH with its extension headers,
// the ICRC, and the messages of the connection manager. It shares no code with the product,
// and is checked against recorded traffic between two Linux kernels, so that a
// misreading of the specification in the product is not repeated by its attacker.
//
// It is made to say wrong things: every field can be set to every value, and what a
// message says is a table of bit fields, through which attacks loop.
package packet
