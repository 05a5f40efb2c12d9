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
	// authFavour is how many messages of addresses that are not suspect are processed for
	// each of one that is.
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
// other, so that none waits for the many messages of another one, and those from which
// hosts have failed lately get fewer, with pauses: all of them together use half of the
// time that there is.
type authenticator struct {
	wait sync.WaitGroup

	mu      sync.Mutex // for all that follows; shards lock it, so nothing may block under it
	work    sync.Cond
	stopped bool
	waiting int                      // jobs
	lines   map[netip.Addr]*authLine // of the addresses that have any
	turns   [2][]*authLine           // the same in the order in which it is their turn; [1]: suspect ones
	favours int                      // how many have been processed since one of a suspect address
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
		j, suspect, ok := a.next()
		if !ok {
			return
		}
		start := time.Now()
		if !j.ended.Load() {
			j.exchange.Compute()
			a.judge(&j)
		}
		j.done()
		if suspect {
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
	class := 0
	if a.repute.suspect(line.from, time.Now()) {
		class = 1
	}
	a.turns[class] = append(a.turns[class], line)
}

// next waits for a job, and reports whether its address is suspect. It reports false when
// stop was called.
func (a *authenticator) next() (j authJob, suspect, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.waiting == 0 {
		if a.stopped {
			return j, false, false
		}
		a.work.Wait()
	}
	class := 0
	if len(a.turns[0]) == 0 || len(a.turns[1]) > 0 && a.favours >= authFavour {
		class = 1
	}
	if a.favours++; class == 1 {
		a.favours = 0
	}
	line := a.turns[class][0]
	a.turns[class] = slices.Delete(a.turns[class], 0, 1)
	j = line.jobs[0]
	line.jobs = slices.Delete(line.jobs, 0, 1)
	a.waiting--
	if len(line.jobs) > 0 {
		a.queue(line)
	} else {
		delete(a.lines, line.from)
	}
	return j, class == 1, true
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
