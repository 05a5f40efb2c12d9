package bench

import (
	"math/bits"
	"math/rand/v2"
)

// A permutation returns each number below n once, in random order, and then all of them again in another order. It
// keeps no map: numbers below the next power of two are mixed by invertible steps, and results beyond n are mixed
// again.
type permutation struct {
	n, mask uint64
	shift   int
	seed    uint64
	count   uint64
	random  *rand.Rand
}

func newPermutation(n uint64, random *rand.Rand) permutation {
	size := bits.Len64(n - 1)
	return permutation{n: n, mask: 1<<size - 1, shift: max(1, (size+1)/2), seed: random.Uint64(), random: random}
}

func (p *permutation) next() uint64 {
	if p.count == p.n {
		p.count, p.seed = 0, p.random.Uint64()
	}
	x := p.count
	p.count++
	for {
		if x = p.mix(x); x < p.n {
			return x
		}
	}
}

func (p *permutation) mix(x uint64) uint64 {
	x = (x + p.seed) & p.mask
	x = x * 0x9e3779b97f4a7c15 & p.mask
	x ^= x >> p.shift
	x = (x + p.seed>>32) & p.mask
	x = x * 0xbf58476d1ce4e5b9 & p.mask
	x ^= x >> p.shift
	x = x * 0x94d049bb133111eb & p.mask
	return x
}

// places chooses the place and size of the next read or write.
type places struct {
	job    *Job
	random *rand.Rand
	walks  [Directions]permutation
	shared [Directions]Direction // the direction whose walk is used: one with the same sizes
	at     [Directions]int64     // sequential: the next block
}

func newPlaces(j *Job, random *rand.Rand) places {
	p := places{job: j, random: random}
	for d := range Direction(Directions) {
		if !j.Pattern.Does(d) {
			continue
		}
		p.shared[d] = d
		for o := range d {
			if j.Pattern.Does(o) && j.Blocks[o].Least == j.Blocks[d].Least {
				p.shared[d] = p.shared[o]
				break
			}
		}
		if p.shared[d] == d {
			p.walks[d] = newPermutation(uint64(j.blocks(d)), random)
		}
	}
	return p
}

// direction returns the direction of the next request.
func (p *places) direction() Direction {
	switch pattern := p.job.Pattern; {
	case pattern.Mixed():
		if p.random.IntN(100) < p.job.ReadShare {
			return ToRead
		}
		return ToWrite
	case pattern.Does(ToTrim):
		return ToTrim
	case pattern.Writes():
		return ToWrite
	}
	return ToRead
}

// next returns the offset and length of a request.
func (p *places) next(d Direction) (offset, length int64) {
	j := p.job
	size, blocks := int64(j.Blocks[d].Least), j.blocks(d)
	count := j.Blocks[d].draw(p.random)
	block := p.block(d, blocks)
	count = min(count, blocks-block)
	if !j.Pattern.Random() {
		if p.at[d] = block + count; p.at[d] == blocks {
			p.at[d] = 0
		}
	}
	return j.Offset + block*size, count * size
}

func (p *places) block(d Direction, blocks int64) int64 {
	switch {
	case !p.job.Pattern.Random():
		return p.at[d]
	case p.job.RepeatAny:
		return p.random.Int64N(blocks)
	}
	return int64(p.walks[p.shared[d]].next())
}
