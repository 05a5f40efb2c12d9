// Package reservation is the state machine of a namespace's reservation (NVMe base
// 2.0, 8.19): commands in; the next state, a status and who must be told out. A
// [State] does not change; it belongs to whoever holds it.
//
// Hosts are told apart by their identifiers, whatever controllers they have.
package reservation
