package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/command"
)

// asyncEvent holds the request until there is something to tell.
func asyncEvent(c *Controller, r *command.Request) capsule.Status {
	if !c.events.Hold(r.Cmd.CID, r) {
		return capsule.StatusAERLimitExceeded | capsule.StatusDNR
	}
	return statusLater
}

// keepAliveCommand restarts the timer, as every command does.
func keepAliveCommand(c *Controller, _ *command.Request) capsule.Status {
	if c.keep.Millis == 0 {
		return capsule.StatusKeepAliveInvalid | capsule.StatusDNR
	}
	c.keep.Restart(c.now())
	return capsule.StatusSuccess
}

func propertyGet(c *Controller, r *command.Request) capsule.Status {
	if queueOf(r).id != 0 {
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	v, status := c.props.Get(r.Cmd.Property())
	r.Result = v
	return status
}

func propertySet(c *Controller, r *command.Request) capsule.Status {
	if queueOf(r).id != 0 {
		return capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	return c.setProperty(r.Cmd.Property())
}

func connect(_ *Controller, r *command.Request) capsule.Status { return queueOf(r).connect(r) }

// disconnect deletes an I/O queue; its connection ends when the host has the
// response (NVMe base 2.0, 6.4).
func disconnect(_ *Controller, r *command.Request) capsule.Status {
	switch {
	case queueOf(r).id == 0:
		return capsule.StatusInvalidQueueType | capsule.StatusDNR
	case r.Cmd.DisconnectRECFMT() != 0:
		return capsule.StatusConnectIncompatibleFormat | capsule.StatusDNR
	}
	queueOf(r).leaving = r
	return capsule.StatusSuccess
}
