// Package meter counts what hosts' commands to a namespace come to: how many of each kind there were,
// how long they took, what they moved, and the status of those that failed.
//
// What is here belongs to a shard, each of which has counters of its own. They are added up when
// somebody reads them, in the shards, so that the data path has neither lock nor atomic
// operation for them.
package meter
