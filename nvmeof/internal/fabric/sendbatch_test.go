package fabric

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// refusing is a queue pair that accepts no more receives.
type refusing struct{ rdmatransport.QueuePair }

var errRefused = errors.New("refused")

func (refusing) PostRecv([]rdmatransport.RecvWR) error { return errRefused }

// TestBatchIsLeftEmpty: what a queue collected before it failed is not posted by the next queue with the same batch.
func TestBatchIsLeftEmpty(t *testing.T) {
	r := newRig(t, 0)
	h := r.queues(r.newStore(1<<16), TargetConfig{Depth: 8}, HostConfig{Depth: 8})
	h.qp = refusing{h.qp}
	h.collectRecv(0)
	h.kill(&h.slots[0], 0)
	(*hostConsumer)(h).Flush()
	if h.state != StateFailing || !errors.Is(h.err, errRefused) {
		t.Fatalf("state %v, error %v: want a queue that fails", h.state, h.err)
	}
	if b := h.send.Batch; len(b.Reads)+len(b.Writes)+len(b.Sends)+len(b.SGEs) != 0 {
		t.Errorf("%d sends are left for the next queue", len(b.Sends))
	}
}
