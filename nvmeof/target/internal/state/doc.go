// Package state has those parts of a controller that are values: its properties with the
// state machine of CC and CSTS, its keep alive timer, its events with the requests that
// they complete, its list of changed namespaces, which of those that replaced others its
// host has identified, and its reservation notices.
//
// Their methods take the time where they need it; the values belong to the controller's
// shard.
package state
