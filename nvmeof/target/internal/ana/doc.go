// Package ana is asymmetric namespace access (NVMe base 2.0, 8.1) as values: the state in
// which each group is reached through a listener, and the log page that reports it. Each
// namespace is in one group, and each listener has a state for each group.
//
// A [Table] is immutable, so that shards read it through a pointer; the owner of the
// pointer serialises changes. [Changes] belong to the controller or subsystem that has
// them.
package ana
