// Package device opens the RDMA devices of the programs below test/interop.
package device

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// Open opens the device of an address over a transport: softroce, or verbs in a build that has it.
func Open(transport string, addr netip.Addr, shards int) (rdmatransport.Device, error) {
	switch transport {
	case "softroce":
		return softroce.Open(softroce.Config{Addr: addr, Shards: shards})
	case "verbs":
		return verbs.Open(verbs.Config{Addr: addr, Shards: shards})
	}
	return nil, fmt.Errorf("no transport %q: softroce or verbs", transport)
}
