//go:build !(verbs && cgo && linux)

package verbs

import (
	"errors"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Built reports whether this program includes the transport.
const Built = false

// ErrNotBuilt means that this program was built without the transport.
var ErrNotBuilt = errors.New("this build has no verbs transport: build with -tags verbs and CGO_ENABLED=1")

// Open opens the RDMA device that has the address cfg.Addr; in this build it always returns [ErrNotBuilt].
func Open(cfg Config) (rdmatransport.Device, error) { return nil, ErrNotBuilt }

// DeviceName returns the name of the RDMA device that has an address; in this build it always returns [ErrNotBuilt].
func DeviceName(addr netip.Addr) (string, error) { return "", ErrNotBuilt }
