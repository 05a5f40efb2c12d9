package udp

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Faults describes the faults in one direction: probabilities (0 to 1) and delays. They apply to each packet
// independently, whether or not it was a segment of a larger send.
type Faults struct {
	Loss, Duplicate float64
	Corrupt         float64       // probability that one to eight bits are flipped
	Delay           time.Duration // of every packet
	Jitter          time.Duration // additional delay, uniformly distributed from 0; reorders packets

	// Reorder is the probability that a packet is delayed until 1 to ReorderBy (default 8) later packets of the
	// direction have passed, or ReorderWait (default 1 ms) has elapsed.
	Reorder     float64
	ReorderBy   int
	ReorderWait time.Duration

	Mark float64 // probability that an ECN-capable packet is marked CE

	// Only restricts the faults, except Delay, to packets for which it returns true, such as certain opcodes. Nil
	// means all packets.
	Only func(payload []byte) bool
	// Drop loses the packets for which it returns true. Nil means none.
	Drop func(payload []byte) bool
}

const (
	defaultReorderBy   = 8
	defaultReorderWait = time.Millisecond
)

// flowKey identifies the direction between two ports.
type flowKey struct {
	from, to           netip.Addr
	fromShard, toShard int
}

// generator returns the random number generator of a direction.
func (n *Network) generator(k flowKey) *rand.Rand {
	rng := n.flows[k]
	if rng == nil {
		from, to := k.from.As16(), k.to.As16()
		b := append(from[:], to[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(k.fromShard))
		b = binary.BigEndian.AppendUint64(b, uint64(k.toShard))
		h := fnv.New64a()
		h.Write(b)
		rng = rand.New(rand.NewPCG(n.seed, h.Sum64()))
		n.flows[k] = rng
	}
	return rng
}

// chance returns true with probability p.
func chance(rng *rand.Rand, p float64) bool { return rng.Float64() < p }

// carry copies one packet and delivers it to its port, subject to the network's faults. The caller holds the lock.
func (n *Network) carry(from *memoryPort, m *Message, faults *Faults, data []byte, segment int32) {
	n.stats.Sent++
	g := n.groups[m.To.Addr().Unmap()]
	if g == nil || m.To.Port() != roce {
		n.stats.Unreachable++
		return
	}
	to := g.ports[shardOf(data, len(g.ports))].(*memoryPort)
	key := flowKey{from.group.addr, g.addr, from.index, to.index}
	rng := n.generator(key)
	harm := Faults{Delay: faults.Delay}
	if faults.Only == nil || faults.Only(data) {
		harm = *faults
	}
	copies := 1
	if chance(rng, harm.Duplicate) {
		copies = 2
		n.stats.Duplicated++
	}
	for range copies {
		if chance(rng, harm.Loss) || harm.Drop != nil && harm.Drop(data) {
			n.stats.Lost++
			continue
		}
		n.seq++
		a := arrival{at: n.now() + harm.Delay, seq: n.seq, from: from.sources[m.Source], segment: segment, tos: m.TOS}
		a.data = append(n.free.take(len(data)), data...)
		n.disturb(rng, &a, &harm)
		n.order(rng, key, to, a, &harm)
	}
}

// disturb applies faults to the packet's time and contents.
func (n *Network) disturb(rng *rand.Rand, a *arrival, f *Faults) {
	a.at += time.Duration(rng.Float64() * float64(f.Jitter))
	if chance(rng, f.Mark) && a.tos&3 != 0 {
		n.stats.Marked++
		a.tos |= 3
	}
	if chance(rng, f.Corrupt) && len(a.data) > 0 {
		n.stats.Corrupted++
		for range 1 + rng.IntN(8) {
			a.data[rng.IntN(len(a.data))] ^= 1 << rng.IntN(8)
		}
	}
}

// order delivers the packet, or holds it back so that others overtake it.
func (n *Network) order(rng *rand.Rand, key flowKey, to *memoryPort, a arrival, f *Faults) {
	by, wait := f.ReorderBy, f.ReorderWait
	if by <= 0 {
		by = defaultReorderBy
	}
	if wait <= 0 {
		wait = defaultReorderWait
	}
	if chance(rng, f.Reorder) {
		n.stats.Reordered++
		to.inbound.hold(a, key, 1+rng.IntN(by), wait)
	} else {
		to.inbound.push(a)
		to.inbound.passed(key, a.at, &n.seq)
	}
	to.expect()
}
