package target

import "github.com/nvmeof-go/nvmeof/capsule"

// queueCounts has the counters of one queue. They belong to its shard.
type queueCounts struct {
	commands, answers     uint64
	readBytes, writeBytes uint64
	copied                uint64 // Reads whose leases ended before the data was acknowledged
	slowed                uint64 // see fabric.Handler.Slow
}

// answered counts a response without data, and the data of a successful Write.
func (c *queueCounts) answered(r *request, s capsule.Status) {
	c.answers++
	if s.OK() && capsule.IOOpcode(r.cmd.Opcode) == capsule.IOWrite {
		c.writeBytes += uint64(len(r.data))
	}
}

// sent counts a response with data.
func (c *queueCounts) sent(bytes int) {
	c.answers++
	c.readBytes += uint64(bytes)
}

// A counted is a queue whose counters are to be read, and the place to store them.
type counted struct {
	queue *queue
	to    *QueueInfo
}

// readCounts reads the counters of queues in their shards. Counters of a shard that has ended stay zero.
func readCounts(queues []counted) {
	for w, own := range byWorker(queues) {
		_ = w.shard.Call(func() {
			for _, q := range own {
				c := &q.queue.counts
				q.to.Commands, q.to.Answers = c.commands, c.answers
				q.to.ReadBytes, q.to.WrittenBytes, q.to.Copied, q.to.Slowed = c.readBytes, c.writeBytes, c.copied, c.slowed
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
