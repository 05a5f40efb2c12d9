package fabric

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A sendBatch collects the send work requests of one call of Flush in the loop's batch, and counts free send queue
// entries. It posts the reads first, then the writes, then the sends. Packets of equal size are adjacent, so that a
// provider can send them together, and each write still precedes its own response.
type sendBatch struct {
	depth  int // of the send queue
	room   int // free entries of the send queue
	maxSGE int
	*shard.Batch
}

func (b *sendBatch) init(s *shard.Shard, depth, maxSGE int) {
	*b = sendBatch{depth: depth, room: depth, maxSGE: maxSGE, Batch: s.Batch()}
}

// post posts the collected work requests as one chain, which takes an RNIC one doorbell. It does not change room:
// entries are freed by completions.
func (b *sendBatch) post(qp rdmatransport.QueuePair) error {
	defer b.Clear()
	switch {
	case len(b.Reads) == 0 && len(b.Writes) == 0:
		if len(b.Sends) == 0 {
			return nil
		}
		return qp.PostSend(b.Sends)
	case len(b.Reads) == 0:
		b.Writes = append(b.Writes, b.Sends...)
		return qp.PostSend(b.Writes)
	}
	b.Reads = append(append(b.Reads, b.Writes...), b.Sends...)
	return qp.PostSend(b.Reads)
}

// A cursor is a position in pieces of local memory.
type cursor struct {
	piece  int
	offset int // in the piece
}

// gather appends to the batch a scatter list of at most n bytes and at most elements elements, starting at the cursor.
// It advances the cursor and returns the list and its length in bytes.
func (b *sendBatch) gather(at *cursor, pieces []rdmatransport.SGE, elements, n int) ([]rdmatransport.SGE, int) {
	start, total := len(b.SGEs), 0
	for total < n && at.piece < len(pieces) && len(b.SGEs)-start < elements {
		p := pieces[at.piece]
		part := p.Buf[at.offset:]
		if len(part) > n-total {
			part = part[:n-total]
			at.offset += len(part)
		} else {
			at.piece, at.offset = at.piece+1, 0
		}
		if len(part) > 0 {
			b.SGEs = append(b.SGEs, rdmatransport.SGE{Buf: part, LKey: p.LKey})
			total += len(part)
		}
	}
	end := len(b.SGEs)
	return b.SGEs[start:end:end], total
}
