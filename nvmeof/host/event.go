package host

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
)

// events keeps one Asynchronous Event Request outstanding. The next is sent
// when the user's function has returned, so that no event waits anywhere but in
// the controller.
type events struct {
	request fabric.Request
	arrived chan capsule.AsyncEvent
}

// wantedEvents are those that a host can act on.
const wantedEvents = capsule.EventNamespaceAttribute | capsule.EventANAChange | capsule.EventDiscoveryChange

func (c *Controller) startEvents(ctx context.Context) error {
	if c.options.Event == nil {
		return nil
	}
	if mask := c.identify.OAES & wantedEvents; mask != 0 {
		if _, err := c.SetFeature(ctx, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: mask}, 0, nil); err != nil {
			return err
		}
	}
	e := &c.events
	e.arrived = make(chan capsule.AsyncEvent, 1)
	e.request = fabric.Request{
		Command: capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent)},
		Patient: true, Done: c.eventArrived,
	}
	go c.tellEvents() // owned by the controller; ends when it is lost
	return nil
}

// eventArrived is called in the loop.
func (c *Controller) eventArrived(r *fabric.Request) {
	if r.Err == nil && r.Completion.Status.OK() {
		c.events.arrived <- capsule.ParseAsyncEvent(r.Completion.DW0()) // has room: one at a time
	}
}

func (c *Controller) tellEvents() {
	l := c.admin
	for l.shard.Do(func() { l.queue.Submit(&c.events.request) }) {
		select {
		case e := <-c.events.arrived:
			c.options.Event(e)
		case <-c.done:
			return
		}
	}
}
