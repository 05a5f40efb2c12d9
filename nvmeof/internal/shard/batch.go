package shard

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A Batch is memory in which a consumer collects work requests and their scatter lists during one call of its Flush.
// The consumer posts them and empties the batch before Flush returns. All consumers of a loop share one batch: a batch
// for each would be the largest part of a queue's memory, and would never be in the processor's cache.
type Batch struct {
	Reads  []rdmatransport.SendWR
	Writes []rdmatransport.SendWR
	Sends  []rdmatransport.SendWR
	SGEs   []rdmatransport.SGE // backs the scatter lists until they are posted
}

// Batch returns the loop's batch. It is empty when Flush is called and must be empty on every return from Flush.
func (s *Shard) Batch() *Batch { return &s.batch }

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() {
	b.Reads, b.Writes, b.Sends, b.SGEs = b.Reads[:0], b.Writes[:0], b.Sends[:0], b.SGEs[:0]
}
