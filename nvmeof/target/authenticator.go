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
	// maxAuthJobs limits the messages that wait for the authenticator: two for each connection that has not
	// authenticated yet, the rest for those that authenticate again. An address without a waiting message is not
	// refused.
	maxAuthJobs = 2 * maxSilent
	// maxAuthLine limits the waiting messages of one address.
	maxAuthLine = maxSilent / 2
	// authFavour is how many messages of addresses in better standing are processed before one of an address in
	// lower standing.
	authFavour = 3
)

// An authJob is a message of an exchange that needs an exponentiation. Meanwhile the exchange is owned by the
// authenticator, otherwise by the shard of its queue.
type authJob struct {
	from     netip.Addr
	exchange computer
	ended    *atomic.Bool // the connection has ended: nothing is computed for it any more
	done     func()       // returns the exchange to its shard; must not block
}

// A computer is the part of an [auth.Controller] that the authenticator uses.
type computer interface {
	Compute()
	State() auth.State
}

// An authenticator has goroutines for computations that would block a shard for too long: exponentiations with up
// to 8192 bits. Addresses are served in turn, so that none waits for the many messages of another one. Those from
// which hosts have authenticated come first, those from which hosts have recently failed last, with pauses: the
// latter together get at most half of the time.
type authenticator struct {
	wait sync.WaitGroup

	mu         sync.Mutex // protects the fields below; shards lock it, so nothing may block under it
	work       sync.Cond
	stopped    bool
	waiting    int                      // number of jobs
	lines      map[netip.Addr]*authLine // of the addresses that have jobs
	turns      [standings][]*authLine   // the same by standing, in the order in which they are served
	passed     [standings]int           // how many of better standing have been processed since one of this standing was
	reputation reputation
}

// An authLine has the jobs of an address, in the order of their arrival.
type authLine struct {
	from netip.Addr
	jobs []authJob
}

// authWorkers returns the number of goroutines: a quarter of the processors, but no more than the shards leave
// free, and at least one.
func authWorkers(processors, shards int) int {
	return max(1, min(processors/4, processors-shards))
}

func (a *authenticator) start(shards int) {
	a.work.L = &a.mu
	a.lines, a.reputation = make(map[netip.Addr]*authLine), make(reputation)
	for range authWorkers(runtime.GOMAXPROCS(0), shards) {
		a.wait.Go(a.run) // ends when stop is called
	}
}

func (a *authenticator) run() {
	for {
		j, isSuspect, ok := a.next()
		if !ok {
			return
		}
		start := time.Now()
		if !j.ended.Load() {
			j.exchange.Compute()
			a.judge(&j)
		}
		j.done()
		if isSuspect {
			time.Sleep(time.Since(start))
		}
	}
}

// offer adds a job. It returns false if too many jobs wait.
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

// queue appends a line to the lines of its standing.
func (a *authenticator) queue(line *authLine) {
	s := a.reputation.standing(line.from, time.Now())
	a.turns[s] = append(a.turns[s], line)
}

// turn returns the standing whose turn it is: the best of those that wait, or the worst that was passed over often
// enough.
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

// next waits for a job, and reports whether its address is suspect. It returns ok false after stop.
func (a *authenticator) next() (j authJob, isSuspect, ok bool) {
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

// judge updates the reputation of an address from the result of a computation.
func (a *authenticator) judge(j *authJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch j.exchange.State() {
	case auth.StateSuccess1: // the host has proved that it knows its key
		a.reputation.proved(j.from, time.Now())
	case auth.StateFailure:
		a.reputation.failed(j.from, time.Now())
	}
}

// abandoned records that a connection ended in the middle of an exchange.
func (a *authenticator) abandoned(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reputation.failed(from, time.Now())
}

// stop ends the goroutines. It is called when no queue is left.
func (a *authenticator) stop() {
	a.mu.Lock()
	a.stopped = true
	a.work.Broadcast()
	a.mu.Unlock()
	a.wait.Wait()
}
