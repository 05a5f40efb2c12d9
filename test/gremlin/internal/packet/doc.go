// Package packet is the gremlin's own codec of RoCEv2: the BTH with its extension headers, the ICRC, and the messages
// of the connection manager. It shares no code with the product, so that a misreading of the specification in the
// product is not repeated by its attacker. It is checked against recorded traffic between two Linux kernels.
//
// The package can encode invalid packets: every field can be set to every value. Messages are described by tables of
// bit fields, over which attacks iterate.
package packet
