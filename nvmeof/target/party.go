package target

import (
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// publicSize is the size of a worker's public arena, which has the buffers for commands that any peer may send:
// those of connections whose hosts have not been admitted, and of discovery controllers. So they do not use the
// buffers of admitted hosts.
const publicSize = 4 << 20

// A partyName identifies a party: a host with an entry of its own by its NQN, and all others by their address,
// since they can use any name.
type partyName struct {
	host nvmeof.NQN
	addr netip.Addr
}

// A party shares the resources of a worker with others: it is a host with all its queues there, or an address. It
// belongs to the worker's shard, and exists as long as it has queues.
type party struct {
	name    partyName
	index   storage.Party
	queues  int
	data    shard.Share // of the shard's arena
	public  shard.Share // of the worker's public arena
	scratch shard.Share // of the worker's scratch arena
	fabric  fabric.Party
}

// join returns the party of that name, and adds a queue to it.
func (w *worker) join(name partyName) *party {
	p := w.parties[name]
	if p == nil {
		p = &party{name: name, index: w.place()}
		w.places[p.index] = p
		p.data.Open(w.shard.Arena())
		p.public.Open(w.public)
		p.scratch.Open(w.scratch)
		p.fabric.Open(w.shard)
		w.parties[name] = p
	}
	p.queues++
	return p
}

// leave removes a queue from a party.
func (w *worker) leave(p *party) {
	if p.queues--; p.queues == 0 {
		delete(w.parties, p.name)
		w.places[p.index] = nil
	}
}

// place returns the lowest index that no party has.
func (w *worker) place() storage.Party {
	i := slices.Index(w.places, nil)
	if i < 0 {
		i = len(w.places)
		w.places = append(w.places, nil)
	}
	return storage.Party(i)
}

// admitted gives the queue the shares of its host. Queues of discovery controllers keep the shares of their
// address.
func (q *queue) admitted() {
	c := q.controller
	if c.discovery() || q.host != nil {
		return
	}
	name := partyName{addr: originOf(q.remote.Addr())}
	if c.subsystem.hosts.Named(c.hostNQN) != nil {
		name = partyName{host: c.hostNQN}
	}
	q.host = q.worker.join(name)
	q.share = &q.host.data
	q.wire.SetParty(&q.host.fabric, true)
	for i := range q.requests {
		q.requests[i].op.Party = q.host.index
	}
}

// leaveParties is called when nothing of the queue is in flight any more.
func (q *queue) leaveParties() {
	if q.origin != nil {
		q.worker.leave(q.origin)
	}
	if q.host != nil {
		q.worker.leave(q.host)
	}
}
