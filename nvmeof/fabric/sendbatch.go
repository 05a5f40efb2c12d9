package fabric

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A sendBatch collects the send work requests of one turn and keeps the send
// queue's account. First come the reads, then the writes, then the sends: equal
// packets stand together, so that a provider can hand them to the network at one
// go, and still each write precedes its own response.
type sendBatch struct {
	room   int // free entries of the send queue
	maxSGE int
	reads  []rdmatransport.SendWR
	writes []rdmatransport.SendWR
	sends  []rdmatransport.SendWR
	sges   []rdmatransport.SGE // backs the scatter lists until they are posted
}

func (b *sendBatch) init(depth, maxSGE int) {
	*b = sendBatch{
		room: depth, maxSGE: maxSGE,
		reads:  make([]rdmatransport.SendWR, 0, depth),
		writes: make([]rdmatransport.SendWR, 0, depth),
		sends:  make([]rdmatransport.SendWR, 0, depth),
		sges:   make([]rdmatransport.SGE, 0, depth*maxSGE),
	}
}

// post hands over what was collected. The account is not changed: entries come
// back with completions.
func (b *sendBatch) post(qp rdmatransport.QueuePair) error {
	for _, wrs := range [...]*[]rdmatransport.SendWR{&b.reads, &b.writes, &b.sends} {
		if len(*wrs) == 0 {
			continue
		}
		if err := qp.PostSend(*wrs); err != nil {
			return err
		}
		*wrs = (*wrs)[:0]
	}
	b.sges = b.sges[:0]
	return nil
}

// A cursor walks over pieces of local memory.
type cursor struct {
	piece  int
	offset int // in the piece
}

// gather appends to the batch a scatter list of at most n bytes and maxSGE
// elements from where the cursor stands, moves the cursor, and returns the list
// and its bytes.
func (b *sendBatch) gather(at *cursor, pieces []rdmatransport.SGE, n int) ([]rdmatransport.SGE, int) {
	start, total := len(b.sges), 0
	for total < n && at.piece < len(pieces) && len(b.sges)-start < b.maxSGE {
		p := pieces[at.piece]
		part := p.Buf[at.offset:]
		if len(part) > n-total {
			part = part[:n-total]
			at.offset += len(part)
		} else {
			at.piece, at.offset = at.piece+1, 0
		}
		if len(part) > 0 {
			b.sges = append(b.sges, rdmatransport.SGE{Buf: part, LKey: p.LKey})
			total += len(part)
		}
	}
	end := len(b.sges)
	return b.sges[start:end:end], total
}
