package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// Namespace write protection (NVMe base 2.0, 8.12), which hosts set. It is the
// namespace's, for all hosts of the subsystem, and lasts until the target ends,
// which to hosts is a power cycle: what a host protects for longer than that an
// administrator has to, with SetReadOnly.
const writeProtection = capsule.NWPCSupported | capsule.NWPCUntilOff

// protection is the state that hosts have set.
func (n *Namespace) protection() capsule.WriteProtection {
	return capsule.WriteProtection(n.protected.Load())
}

func getWriteProtection(c *Controller, r *request, _ uint32) capsule.Status {
	ns := c.namespace(r.cmd.NSID)
	if ns == nil {
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	if !r.preset() {
		r.result = uint64(ns.protection())
	}
	return capsule.StatusSuccess
}

// setWriteProtection changes the state, and answers when what was written before is
// durable. Writes that have begun on other shards are carried out.
func setWriteProtection(c *Controller, r *request, v uint32) capsule.Status {
	ns := c.namespace(r.cmd.NSID)
	want := capsule.WriteProtection(v & 7)
	switch {
	case ns == nil:
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	case c.rights.Load().To(ns.id) != AccessWrite:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR // not for this host to decide
	case want > capsule.WriteProtectedUntilOff:
		return invalidField
	case ns.protection() == capsule.WriteProtectedUntilOff && want != capsule.WriteProtectedUntilOff:
		return capsule.StatusFeatureNotChangeable | capsule.StatusDNR
	}
	before := capsule.WriteProtection(ns.protected.Swap(uint32(want)))
	if before == want {
		return capsule.StatusSuccess
	}
	if want == capsule.WriteProtectNone || !ns.volume.Info.Volatile {
		ns.subsystem.namespaceChanged(ns.id)
		return capsule.StatusSuccess
	}
	p := &protecting{request: r, ns: ns, before: before}
	p.Operation.Owner = p
	p.Request = backend.Request{Op: backend.OpFlush}
	l := ns.volume.Lanes[r.queue.worker.Index].Load()
	l.Enter(&p.Operation)
	l.Put(&p.Operation)
	return statusLater
}

// protecting is a Set Features that waits for a flush.
type protecting struct {
	request *request
	ns      *Namespace
	before  capsule.WriteProtection
	volume.Operation
}

// Completed implements [operationOwner].
func (p *protecting) Completed(err error) {
	status := capsule.StatusSuccess
	if err != nil {
		p.Lane.Failure(backend.OpFlush, err)
		status = volume.StatusOf(backend.OpFlush, err)
		p.ns.protected.Store(uint32(p.before))
	}
	p.Operation.Release()
	p.request.finish(status)
	p.ns.subsystem.namespaceChanged(p.ns.id)
}

// Leasable implements [operationOwner]; a flush takes no lease.
func (p *protecting) Leasable() {}
