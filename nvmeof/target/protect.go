package target

import (
	"slices"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Namespace write protection (NVMe base 2.0, 8.12), which hosts set. It is the
// namespace's, for all hosts of the subsystem. It survives the target, whose end is a
// power cycle to hosts, if [SubsystemConfig.State] is set; otherwise an administrator
// protects for longer than that with SetReadOnly.
const writeProtection = capsule.NWPCSupported | capsule.NWPCUntilOff

// protects reports whether hosts may protect namespaces. Those of a group of gateways they may not: at
// another gateway, to which a namespace moves, nobody would know of it.
func protects(t *Target) bool { return t.cfg.Gateway == nil }

func getWriteProtection(c *Controller, r *request, _ uint32) capsule.Status {
	ns, status := c.view.Have(r.cmd.NSID)
	if ns == nil {
		return status
	}
	if !preset(r) {
		r.result = uint64(ns.Protection())
	}
	return capsule.StatusSuccess
}

// setWriteProtection changes the state, and completes when what was written before is
// durable. Writes that have begun on other shards are executed. One that requests what another
// command is about to set does the same: that one may fail.
func setWriteProtection(c *Controller, r *request, v uint32) capsule.Status {
	ns, status := c.view.Have(r.cmd.NSID)
	want := capsule.WriteProtection(v & 7)
	switch {
	case ns == nil:
		return status
	case c.view.Rights.Load().To(ns.ID) != AccessWrite:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR // an administrator decides that
	case want > capsule.WriteProtectedUntilOff:
		return r.invalid(11, 0)
	}
	change, may := ns.BeginProtect(want)
	switch {
	case !may:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR
	case change == nil:
		return capsule.StatusSuccess
	}
	p := &protecting{request: r, ns: ns, change: change}
	switch flush := want != capsule.WriteProtectNone && ns.Volume.Info.Volatile; {
	case flush:
	case !c.subsystem.keepsState():
		change.End(true)
		c.subsystem.namespaceChanged(ns.ID)
		return capsule.StatusSuccess
	default:
		p.save()
		return statusLater
	}
	c.flushing.protecting = append(c.flushing.protecting, p)
	p.flush.start(ns.Volume.Lane(r.queue.worker.lanes.Index), p.flushed)
	return statusLater
}

// protecting is a Set Features that waits for a flush.
type protecting struct {
	request *request
	ns      *storage.Namespace
	change  *storage.Protecting
	flush   flush
}

// flushed continues when what was written is durable.
func (p *protecting) flushed(err error) {
	w := &p.request.queue.controller.flushing
	w.protecting = slices.DeleteFunc(w.protecting, func(o *protecting) bool { return o == p })
	switch s := p.request.queue.controller.subsystem; {
	case err != nil:
		p.end(storage.StatusOf(backend.OpFlush, err))
	case !s.keepsState():
		p.end(capsule.StatusSuccess)
	default:
		p.save()
	}
}

// save saves the state, if the subsystem has a store for it. One that has failed may have
// saved it nonetheless: what was before is saved again, now and, if that fails, later.
func (p *protecting) save() {
	s := p.request.queue.controller.subsystem
	p.request.outside(&s.life, func() func() {
		status := capsule.StatusSuccess
		if err := s.save(); err != nil {
			status = capsule.StatusInternalError
			p.change.End(false)
			_ = s.save() // which logs an error
			p.noteUnsaved(err)
		}
		return func() { p.end(status) }
	})
}

// noteUnsaved says why the command fails. That counters are not saved is said once, and may have been before.
func (p *protecting) noteUnsaved(err error) {
	c := p.request.queue.controller
	c.target.log.Trouble("write protection not saved, command failed", zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(c.subsystem.nqn)),
		zap.Uint32("nsid", uint32(p.ns.ID)), zap.Error(err))
	happenedTo(c, p.ns, events.Namespace, events.Error, "write protection not saved, command failed: "+err.Error())
}

// end completes the command, and reverts the state if it failed.
func (p *protecting) end(status capsule.Status) {
	p.change.End(status.OK())
	p.request.queue.controller.subsystem.namespaceChanged(p.ns.ID)
	p.request.finish(status)
}
