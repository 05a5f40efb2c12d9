// Package ana implements asymmetric namespace access (NVMe base 2.0, 8.1): the state of each group on a listener,
// and the log page that reports it. Each namespace is in one group, and each listener has a state for each group.
//
// A [Table] is immutable, so that shards can read it through a pointer; the owner of the pointer serializes
// changes. [Changes] belong to the controller or subsystem that has them.
package ana
