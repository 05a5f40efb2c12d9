package targetcommand

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// ParseStore parses an export in the form of the target's --export.
func ParseStore(what string) (open func() (backend.Store, error), _ error) {
	n, err := parseExport(what)
	return func() (backend.Store, error) {
		s, _, err := control.OpenStore(n, nil)
		return s, withSize(n, err)
	}, err
}
