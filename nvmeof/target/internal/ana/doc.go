// Package ana is asymmetric namespace access (NVMe base 2.0, 8.1) as values: through
// which state a listener reaches each group, and the log page that tells hosts of it.
// Each namespace is in one group, and each listener has a state for each.
//
// A [Table] does not change, so that shards read it through a pointer; whoever holds the
// pointer sees to it that one change is made at a time. [Changes] belong to whoever
// holds them.
package ana
