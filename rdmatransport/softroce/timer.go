package softroce

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
)

// timerHeap orders queue pairs by their next wake-up. A queue pair's entry may be earlier than its deadline, which
// usually moves later: the entry is corrected when it comes up, so that traffic does not reorder the heap.
type timerHeap struct {
	list []*queuePair
}

// update makes sure that q comes up no later than its deadline.
func (h *timerHeap) update(q *queuePair) {
	d := q.rc.Deadline()
	switch {
	case q.heapIndex < 0 && d != rc.Never:
		q.wakeAt = d
		q.heapIndex = len(h.list)
		h.list = append(h.list, q)
		h.up(q.heapIndex)
	case q.heapIndex >= 0 && d < q.wakeAt:
		q.wakeAt = d
		h.up(q.heapIndex)
	}
}

// due removes and returns a queue pair whose deadline has passed, or returns nil.
func (h *timerHeap) due(now time.Duration) *queuePair {
	for len(h.list) > 0 && h.list[0].wakeAt <= now {
		q := h.list[0]
		h.remove(q)
		if q.rc.Deadline() <= now {
			return q
		}
		h.update(q)
	}
	return nil
}

// next returns when due may return a queue pair, or rc.Never.
func (h *timerHeap) next() time.Duration {
	if len(h.list) == 0 {
		return rc.Never
	}
	return h.list[0].wakeAt
}

func (h *timerHeap) remove(q *queuePair) {
	i := q.heapIndex
	if i < 0 {
		return
	}
	last := len(h.list) - 1
	h.swap(i, last)
	h.list[last] = nil
	h.list = h.list[:last]
	q.heapIndex = -1
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *timerHeap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].heapIndex, h.list[j].heapIndex = i, j
}

func (h *timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.list[parent].wakeAt <= h.list[i].wakeAt {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.list) {
			return
		}
		if child+1 < len(h.list) && h.list[child+1].wakeAt < h.list[child].wakeAt {
			child++
		}
		if h.list[i].wakeAt <= h.list[child].wakeAt {
			return
		}
		h.swap(i, child)
		i = child
	}
}
