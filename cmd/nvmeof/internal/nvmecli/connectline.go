package nvmecli

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

// Secret is what a host that has a key at the target adds to the line; the key is a secret, and is not printed.
const Secret = "--dhchap-secret KEY-OF-THE-HOST"

// ConnectLine is what an administrator types on a Linux host.
func ConnectLine(at netip.AddrPort, nqn string) string {
	return fmt.Sprintf("nvme connect -t rdma -a %v -s %d -n %s", at.Addr(), at.Port(), shell.Quote(nqn))
}
