package shard

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A Batch is memory in which a consumer collects work requests and their scatter
// lists during one call of its Flush, and empties it by posting them. All consumers
// of a loop share it: of their own it would be the largest part of what a queue
// takes, and never in the processor's cache.
type Batch struct {
	Reads  []rdmatransport.SendWR
	Writes []rdmatransport.SendWR
	Sends  []rdmatransport.SendWR
	SGEs   []rdmatransport.SGE // backs the scatter lists until they are posted
}

// Batch is the loop's batch. It is empty when Flush is called, and has to be when it
// returns, on every path.
func (s *Shard) Batch() *Batch { return &s.batch }

// Clear empties the batch. Its memory stays.
func (b *Batch) Clear() {
	b.Reads, b.Writes, b.Sends, b.SGEs = b.Reads[:0], b.Writes[:0], b.Sends[:0], b.SGEs[:0]
}
