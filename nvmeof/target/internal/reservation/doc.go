// Package reservation implements the state machine of a namespace's reservation (NVMe base 2.0, 8.19): a command
// is applied to a state, and results in the next state, a status and the hosts to notify. A [State] is immutable.
//
// Hosts are identified by their host identifiers, whatever controllers they have.
package reservation
