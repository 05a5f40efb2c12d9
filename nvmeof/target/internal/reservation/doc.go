// Package reservation is the state machine of a namespace's reservation (NVMe base 2.0,
// 8.19): a command goes in; the next state, a status and the hosts to be notified come
// out. A [State] is immutable.
//
// Hosts are distinguished by their identifiers, whatever controllers they have.
package reservation
