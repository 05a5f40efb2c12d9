package nvmecli

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

// Secret is the option that a host with a key at the target adds to the line. It contains a placeholder, since keys
// are not printed.
const Secret = "--dhchap-secret KEY-OF-THE-HOST"

// ConnectLine returns the command line with which an administrator connects a Linux host.
func ConnectLine(at netip.AddrPort, nqn string) string {
	return fmt.Sprintf("nvme connect -t rdma -a %v -s %d -n %s", at.Addr(), at.Port(), shell.Quote(nqn))
}
