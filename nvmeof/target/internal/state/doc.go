// Package state has the parts of a controller that are plain values: its properties with the state machine of CC
// and CSTS, its keep alive timer, its asynchronous events with the held requests, its list of changed namespaces,
// its unidentified replaced namespaces, and its reservation notices.
//
// Methods that need the time take it as an argument. The values belong to the controller's shard.
package state
