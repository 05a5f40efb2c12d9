// Package meter counts the commands of hosts to a namespace: how many of each kind there were, how long they took,
// how much data they transferred, and the status of those that failed.
//
// Each shard has its own counters, which belong to it. They are added up when they are read, in the shards, so
// that the data path needs neither locks nor atomic operations for them.
package meter
