package target

import "github.com/nvmeof-go/nvmeof/capsule"

// reach finds the namespace of an I/O command, or tells why the host cannot have
// it. Any shard may call it.
func (c *Controller) reach(id capsule.NSID) (*Namespace, capsule.Status) {
	ns := c.subsystem.table().get(id)
	if ns == nil {
		return nil, capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	return ns, capsule.StatusSuccess
}
