package child

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// AttachSpec says which namespace is published, and at which socket.
type AttachSpec struct {
	Namespace int
	Socket    string
}

// Attach publishes a namespace as an NBD server, as `nvmeof attach` does, until the
// host is closed.
func (h *Host) Attach(spec AttachSpec, _ *None) error {
	ns := h.namespaces[spec.Namespace]
	if ns == nil {
		return errors.New("the namespace is not there")
	}
	needProcessors(h.spec.Shards + 1)
	server, err := nbd.Listen(nbd.Config{Socket: spec.Socket})
	if err != nil {
		return err
	}
	h.add(server.Close)
	return server.Publish([]nbd.Disk{{
		Name: "1", Store: ns,
		NewMemory: func(size int) (nbd.Memory, error) { return h.controller.NewBuffers(size) },
	}})
}
