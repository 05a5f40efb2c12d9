package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
)

// asyncEvent holds the request until an event completes it.
func asyncEvent(c *Controller, r *request) capsule.Status {
	if !c.events.Hold(r.cmd.CID, r) {
		return capsule.StatusAERLimitExceeded | capsule.StatusDNR
	}
	return statusLater
}

// keepAliveCommand restarts the keep alive timer, as every command does.
func keepAliveCommand(c *Controller, _ *request) capsule.Status {
	if c.keep.Millis == 0 {
		return capsule.StatusKeepAliveInvalid | capsule.StatusDNR
	}
	c.keep.Restart(c.now())
	return capsule.StatusSuccess
}

func propertyGet(c *Controller, r *request) capsule.Status {
	if r.queue.id != 0 {
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	v, status := c.props.Get(r.cmd.Property())
	r.result = v
	return status
}

func propertySet(c *Controller, r *request) capsule.Status {
	if r.queue.id != 0 {
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	was := c.props.CSTS.Ready()
	status := c.setProperty(r.cmd.Property())
	if !was && c.props.CSTS.Ready() {
		r.chargeAll(healthCost) // see knowHealth
	}
	return status
}

func connect(_ *Controller, r *request) capsule.Status { return r.queue.connect(r) }

// disconnect deletes an I/O queue; its connection ends when the host has received the response (NVMe base 2.0,
// 6.4).
func disconnect(_ *Controller, r *request) capsule.Status {
	switch {
	case r.queue.id == 0:
		return capsule.StatusInvalidQueueType | capsule.StatusDNR
	case r.cmd.DisconnectRECFMT() != 0:
		return capsule.StatusConnectIncompatibleFormat | capsule.StatusDNR
	}
	r.queue.leaving = r
	return capsule.StatusSuccess
}
