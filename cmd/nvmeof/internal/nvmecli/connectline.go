package nvmecli

import (
	"fmt"
	"net/netip"
)

// ConnectLine is what an administrator types on a Linux host.
func ConnectLine(at netip.AddrPort, nqn string) string {
	return fmt.Sprintf("nvme connect -t rdma -a %v -s %d -n %s", at.Addr(), at.Port(), nqn)
}
