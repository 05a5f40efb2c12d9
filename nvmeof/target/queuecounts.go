package target

// A counted queue is one whose counters are wanted, and where.
type counted struct {
	queue *queue
	to    *QueueInfo
}

// readCounts asks each shard for the counters of its queues. Those of a shard that
// has ended stay zero.
func readCounts(queues []counted) {
	for w, own := range byWorker(queues) {
		_ = w.Shard.Call(func() {
			for _, q := range own {
				c := &q.queue.Counts
				q.to.Commands, q.to.Answers = c.Commands, c.Answers
				q.to.ReadBytes, q.to.WrittenBytes = c.ReadBytes, c.WriteBytes
			}
		})
	}
}

func byWorker(queues []counted) map[*worker][]counted {
	out := make(map[*worker][]counted)
	for _, q := range queues {
		out[q.queue.worker] = append(out[q.queue.worker], q)
	}
	return out
}
