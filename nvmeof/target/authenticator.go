package target

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// maxAuthJobs is how many messages may wait to be computed: two for each connection
// that has yet to prove itself, the rest for those that do so again.
const maxAuthJobs = 2 * maxSilent

// An authJob is one message for an exchange. While it is here the exchange belongs
// to the authenticator, else to the shard of its queue.
type authJob struct {
	exchange *auth.Controller
	message  []byte
	done     func() // hands the exchange back; must not block
}

// An authenticator computes in a goroutine of its own what would hold up a shard:
// exponentiations of up to 8192 bits.
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
