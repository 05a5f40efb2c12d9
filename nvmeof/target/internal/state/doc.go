// Package state has those parts of a controller that are values: its properties with the
// state machine of CC and CSTS, its keep alive timer, the events that it holds requests
// for, its list of changed namespaces, what its host has asked about those that replaced
// others, and its reservation notices.
//
// They take the time where they need it, and belong to the shard of the controller.
package state
