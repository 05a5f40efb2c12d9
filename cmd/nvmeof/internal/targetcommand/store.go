package targetcommand

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// ParseStore reads an export as the target's --export does.
func ParseStore(what string) (open func() (backend.Store, error), _ error) {
	n, err := parseExport(what)
	return func() (backend.Store, error) {
		s, _, err := control.OpenStore(n, nil)
		return s, withSize(n, err)
	}, err
}
