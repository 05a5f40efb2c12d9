package backend

// Results is the part that every [Queue] needs: finished results until they are
// polled, oldest first. It never grows.
type Results struct {
	ring []Result
	head int
	n    int
}

// NewResults has room for depth results.
func NewResults(depth int) Results { return Results{ring: make([]Result, depth)} }

// Push adds a result. The caller sees to it that there is room.
func (q *Results) Push(r Result) {
	if q.n == len(q.ring) {
		panic("backend: more results than requests in flight")
	}
	i := q.head + q.n
	if i >= len(q.ring) {
		i -= len(q.ring)
	}
	q.ring[i] = r
	q.n++
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

// Len is how many results wait.
func (q *Results) Len() int { return q.n }
