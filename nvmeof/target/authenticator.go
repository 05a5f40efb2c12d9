package target

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// maxAuthJobs is how many messages may wait for the authenticator: two for each
// connection that has not authenticated yet, the rest for those that authenticate again.
const maxAuthJobs = 2 * maxSilent

// An authJob is one message of an exchange. Meanwhile the exchange belongs to the
// authenticator, otherwise to the shard of its queue.
type authJob struct {
	exchange *auth.Controller
	message  []byte
	done     func() // returns the exchange to its shard; must not block
}

// An authenticator computes in a goroutine of its own what would block a shard for too
// long: exponentiations of up to 8192 bits.
type authenticator struct {
	jobs chan authJob
	wait sync.WaitGroup
}

func (a *authenticator) start() {
	a.jobs = make(chan authJob, maxAuthJobs)
	a.wait.Go(a.run) // ends when stop closes jobs
}

func (a *authenticator) run() {
	for j := range a.jobs {
		j.exchange.Receive(j.message)
		j.done()
	}
}

// offer reports false when too many jobs wait.
func (a *authenticator) offer(j authJob) bool {
	select {
	case a.jobs <- j:
		return true
	default:
		return false
	}
}

// stop is called when no queue is left.
func (a *authenticator) stop() {
	close(a.jobs)
	a.wait.Wait()
}
