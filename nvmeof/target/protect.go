package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/command"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/namespace"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// Namespace write protection (NVMe base 2.0, 8.12), which hosts set. It is the
// namespace's, for all hosts of the subsystem, and lasts until the target ends,
// which to hosts is a power cycle: what a host protects for longer than that an
// administrator has to, with SetReadOnly.
const writeProtection = capsule.NWPCSupported | capsule.NWPCUntilOff

func getWriteProtection(c *Controller, r *command.Request, _ uint32) capsule.Status {
	ns, status := c.view.Have(r.Cmd.NSID)
	if ns == nil {
		return status
	}
	if !preset(r) {
		r.Result = uint64(ns.Protection())
	}
	return capsule.StatusSuccess
}

// setWriteProtection changes the state, and answers when what was written before is
// durable. Writes that have begun on other shards are carried out.
func setWriteProtection(c *Controller, r *command.Request, v uint32) capsule.Status {
	ns, status := c.view.Have(r.Cmd.NSID)
	want := capsule.WriteProtection(v & 7)
	switch {
	case ns == nil:
		return status
	case c.view.Rights.Load().To(ns.ID) != AccessWrite:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR // not for this host to decide
	case want > capsule.WriteProtectedUntilOff:
		return r.Invalid(11, 0)
	case ns.Protection() == capsule.WriteProtectedUntilOff && want != capsule.WriteProtectedUntilOff:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR
	}
	before := ns.Protect(want)
	if before == want {
		return capsule.StatusSuccess
	}
	if want == capsule.WriteProtectNone || !ns.Volume.Info.Volatile {
		c.subsystem.namespaceChanged(ns.ID)
		return capsule.StatusSuccess
	}
	p := &protecting{request: r, ns: ns, before: before}
	p.Operation.Owner = p
	p.Request = backend.Request{Op: backend.OpFlush}
	l := ns.Volume.Lanes[r.Queue.At.Index].Load()
	l.Enter(&p.Operation)
	l.Put(&p.Operation)
	return statusLater
}

// protecting is a Set Features that waits for a flush.
type protecting struct {
	request *command.Request
	ns      *namespace.Namespace
	before  capsule.WriteProtection
	volume.Operation
}

// Completed implements [operationOwner].
func (p *protecting) Completed(err error) {
	status := capsule.StatusSuccess
	if err != nil {
		p.Lane.Failure(backend.OpFlush, err)
		status = volume.StatusOf(backend.OpFlush, err)
		p.ns.Protect(p.before)
	}
	p.Operation.Release()
	p.request.Finish(status)
	queueOf(p.request).controller.subsystem.namespaceChanged(p.ns.ID)
}

// Leasable implements [operationOwner]; a flush takes no lease.
func (p *protecting) Leasable() {}
