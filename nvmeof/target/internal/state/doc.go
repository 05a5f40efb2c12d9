// Package state has those parts of a controller that are values: its properties with the
// state machine of CC and CSTS, its keep alive timer, and its list of changed namespaces.
// They take the time where they need it, and belong to the shard of the controller.
package state
