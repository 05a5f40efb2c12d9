package backend

// Results holds a [Queue]'s finished results until they are polled, oldest first. Most queues are idle most of the
// time, so its memory grows with the number of results, up to its depth. It does not shrink.
type Results struct {
	ring  []Result
	head  int
	n     int
	depth int
}

// firstResults is the initial capacity.
const firstResults = 8

// NewResults returns Results for up to depth results.
func NewResults(depth int) Results { return Results{depth: depth} }

// Push adds a result. The caller ensures that there is room.
func (q *Results) Push(r Result) {
	if q.n == len(q.ring) {
		q.grow()
	}
	i := q.head + q.n
	if i >= len(q.ring) {
		i -= len(q.ring)
	}
	q.ring[i] = r
	q.n++
}

func (q *Results) grow() {
	if q.n == q.depth {
		panic("backend: more results than requests in flight")
	}
	ring := make([]Result, min(max(firstResults, 2*q.n), q.depth))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

// Drain moves results to rs and returns how many.
func (q *Results) Drain(rs []Result) int {
	n := min(len(rs), q.n)
	for i := range rs[:n] {
		rs[i] = q.ring[q.head]
		q.ring[q.head].Err = nil
		if q.head++; q.head == len(q.ring) {
			q.head = 0
		}
	}
	q.n -= n
	return n
}

// Len returns how many results wait.
func (q *Results) Len() int { return q.n }
