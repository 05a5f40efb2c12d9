package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// ErrKeepAlive is why a controller that no longer answers is given up.
var ErrKeepAlive = errors.New("keep alive was not answered in time")

// A keepAliveRefusal is why a controller is given up that completed Keep Alive with an error. It is no [*StatusError]: as the
// error of each request that ends with the controller it would say that the controller had completed that.
type keepAliveRefusal struct{ status StatusError }

func (e *keepAliveRefusal) Error() string { return e.status.Error() }

// A keepAlive sends Keep Alive every half of KATO, so that one that is lost with
// its connection's retries is made up for (NVMe base 2.0, 3.9). It belongs to
// the admin queue's loop.
type keepAlive struct {
	admin    *association.Queue
	request  fabric.Request
	timer    shard.Timer
	period   time.Duration
	sentAt   int64
	inFlight bool
}

// every begins to send Keep Alive, or changes how often.
func (k *keepAlive) every(admin *association.Queue, period time.Duration) error {
	return admin.Shard.Call(func() {
		if admin.Fabric.State() != fabric.StateLive {
			return
		}
		if k.timer.Func == nil {
			k.request = fabric.Request{
				Command: capsule.Command{Opcode: capsule.Opcode(capsule.AdminKeepAlive)},
				Source:  &admin.Urgent, Urgency: fabric.Urgent, Done: k.answered,
			}
			k.admin, k.timer.Func = admin, k.due
			admin.OnEnd = func() { admin.Shard.StopTimer(&k.timer) }
		}
		k.period = period
		admin.Shard.SetTimer(&k.timer, period)
	})
}

func (k *keepAlive) due() {
	q := k.admin
	if q.Fabric.State() != fabric.StateLive {
		return
	}
	q.Shard.SetTimer(&k.timer, k.period)
	if k.inFlight {
		if q.Shard.Now()-k.sentAt >= int64(2*k.period) {
			q.Fabric.Fail(fmt.Errorf("%w (KATO %v)", ErrKeepAlive, 2*k.period))
		}
		return
	}
	k.inFlight, k.sentAt = true, q.Shard.Now()
	if err := q.Fabric.Submit(&k.request); err != nil {
		k.inFlight = false
	}
}

func (k *keepAlive) answered(r *fabric.Request) {
	k.inFlight = false
	if r.Err == nil && !r.Completion.Status.OK() {
		k.admin.Fabric.Fail(&keepAliveRefusal{StatusError{commandName(&r.Command, true), r.Completion.Status, r.Completion.Result}})
	}
}
