package target

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

const (
	// maxAuthJobs is how many messages may wait for the authenticator: two for each
	// connection that has not authenticated yet, the rest for those that authenticate
	// again. An address that has none waiting is not refused.
	maxAuthJobs = 2 * maxSilent
	// maxAuthLine is how many of one address may.
	maxAuthLine = maxSilent / 2
	// authFavour is after how many messages of better known addresses it is the turn of
	// one of the others.
	authFavour = 3
)

// An authJob is one message of an exchange that needs an exponentiation. Meanwhile the
// exchange belongs to the authenticator, otherwise to the shard of its queue.
type authJob struct {
	from     netip.Addr
	exchange computer
	ended    *atomic.Bool // the connection has ended: nothing is computed for it
	done     func()       // returns the exchange to its shard; must not block
}

// A computer is what the authenticator uses of an [auth.Controller].
type computer interface {
	Compute()
	State() auth.State
}

// An authenticator computes in goroutines of its own what would block a shard for too
// long: exponentiations of up to 8192 bits. Addresses get their turn one after the
// other, so that none waits for the many messages of another one. Those from which hosts have
// authenticated come first, those from which they have failed lately last, with pauses: all
// of these together use half of the time that there is.
type authenticator struct {
	wait sync.WaitGroup

	mu      sync.Mutex // for all that follows; shards lock it, so nothing may block under it
	work    sync.Cond
	stopped bool
	waiting int                      // jobs
	lines   map[netip.Addr]*authLine // of the addresses that have any
	turns   [standings][]*authLine   // the same in the order in which it is their turn
	passed  [standings]int           // how many of better ones have been processed since one of those
	repute  repute
}

// An authLine is the jobs of an address, in the order in which they came.
type authLine struct {
	from netip.Addr
	jobs []authJob
}

// authWorkers leaves the shards their processors: a quarter of all is for authentication,
// and no more than the shards leave, but one at least.
func authWorkers(processors, shards int) int {
	return max(1, min(processors/4, processors-shards))
}

func (a *authenticator) start(shards int) {
	a.work.L = &a.mu
	a.lines, a.repute = make(map[netip.Addr]*authLine), make(repute)
	for range authWorkers(runtime.GOMAXPROCS(0), shards) {
		a.wait.Go(a.run) // ends when stop is called
	}
}

func (a *authenticator) run() {
	for {
		j, doubtful, ok := a.next()
		if !ok {
			return
		}
		start := time.Now()
		if !j.ended.Load() {
			j.exchange.Compute()
			a.judge(&j)
		}
		j.done()
		if doubtful {
			time.Sleep(time.Since(start))
		}
	}
}

// offer reports false when too many jobs wait.
func (a *authenticator) offer(j authJob) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := a.lines[j.from]
	switch {
	case line == nil:
		line = &authLine{from: j.from}
		a.lines[j.from] = line
		a.queue(line)
	case a.waiting >= maxAuthJobs, len(line.jobs) >= maxAuthLine:
		return false
	}
	line.jobs = append(line.jobs, j)
	a.waiting++
	a.work.Signal()
	return true
}

// queue has a line wait for its turn.
func (a *authenticator) queue(line *authLine) {
	s := a.repute.standing(line.from, time.Now())
	a.turns[s] = append(a.turns[s], line)
}

// turn is whose turn it is, of those that wait: the best, or the worst that was passed over
// often enough.
func (a *authenticator) turn() standing {
	best := standings
	for s := standings - 1; s >= 0; s-- {
		if len(a.turns[s]) == 0 {
			a.passed[s] = 0
			continue
		}
		if best = s; a.passed[s] >= authFavour {
			break
		}
	}
	a.passed[best] = 0
	for s := best + 1; s < standings; s++ {
		if len(a.turns[s]) > 0 {
			a.passed[s]++
		}
	}
	return best
}

// next waits for a job, and reports whether its address is suspect. It reports false when
// stop was called.
func (a *authenticator) next() (j authJob, doubtful, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.waiting == 0 {
		if a.stopped {
			return j, false, false
		}
		a.work.Wait()
	}
	s := a.turn()
	line := a.turns[s][0]
	a.turns[s] = slices.Delete(a.turns[s], 0, 1)
	j = line.jobs[0]
	line.jobs = slices.Delete(line.jobs, 0, 1)
	a.waiting--
	if len(line.jobs) > 0 {
		a.queue(line)
	} else {
		delete(a.lines, line.from)
	}
	return j, s == suspect, true
}

// judge notes what the exchange says of its address.
func (a *authenticator) judge(j *authJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch j.exchange.State() {
	case auth.StateSuccess1: // the host has proved that it knows its key
		a.repute.proved(j.from, time.Now())
	case auth.StateFailure:
		a.repute.failed(j.from, time.Now())
	}
}

// abandoned notes that a connection ended in the middle of an exchange.
func (a *authenticator) abandoned(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.repute.failed(from, time.Now())
}

// stop is called when no queue is left.
func (a *authenticator) stop() {
	a.mu.Lock()
	a.stopped = true
	a.work.Broadcast()
	a.mu.Unlock()
	a.wait.Wait()
}
