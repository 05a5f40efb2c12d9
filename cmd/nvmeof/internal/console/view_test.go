package console

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestConnectLine checks that the line contains the option for a key if the host would be rejected without it.
func TestConnectLine(t *testing.T) {
	const line = "nvme connect -t rdma -a 192.0.2.1 -s 4420 -n " + nqn
	keyed, open := &config.Host{NQN: "a", KeyFile: "/k"}, &config.Host{NQN: "b"}
	for _, c := range []struct {
		hosts []*config.Host
		any   bool
		want  string
	}{
		{nil, true, line},
		{[]*config.Host{open}, false, line},
		{[]*config.Host{keyed}, false, line + " --dhchap-secret KEY-OF-THE-HOST"},
		{[]*config.Host{keyed}, true, line + "  # a host with a key: --dhchap-secret KEY-OF-THE-HOST"},
		{[]*config.Host{open, keyed}, false, line + "  # a host with a key: --dhchap-secret KEY-OF-THE-HOST"},
	} {
		x := &config.Subsystem{NQN: nqn, Hosts: c.hosts, AllowAnyHost: c.any}
		if got := ConnectLine(netip.MustParseAddrPort("192.0.2.1:4420"), x); got != c.want {
			t.Errorf("%d hosts, any %v: %s", len(c.hosts), c.any, got)
		}
	}
}
