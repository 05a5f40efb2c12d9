package numa

import (
	"testing"
	"testing/fstest"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// twoSockets has a network card at each of two nodes, a bond of each kind, and a VLAN.
var twoSockets = fstest.MapFS{
	"class/net/eth0/device/numa_node":          {Data: []byte("0\n")},
	"class/net/eth1/device/numa_node":          {Data: []byte("2\n")},
	"class/net/eth2/device/numa_node":          {Data: []byte("2\n")},
	"class/net/eth3/device/numa_node":          {Data: []byte("-1\n")},
	"class/net/lo/mtu":                         {Data: []byte("65536\n")},
	"class/net/bond0/lower_eth0":               {},
	"class/net/bond0/lower_eth1":               {},
	"class/net/bond1/lower_eth1":               {},
	"class/net/bond1/lower_eth2":               {},
	"class/net/vlan7/lower_bond1":              {},
	"class/net/loop/lower_loop":                {},
	"class/infiniband/mlx5_0/device/numa_node": {Data: []byte("2\n")},
}

func TestNodes(t *testing.T) {
	for name, want := range map[string]rdmatransport.NUMANode{
		"eth0": 1, "eth1": 3, "eth3": 0, "lo": 0, "none": 0, "bond0": 0, "bond1": 3, "vlan7": 3, "loop": 0,
	} {
		if got := OfInterface(twoSockets, name); got != want {
			t.Errorf("%s is at %d, want %d", name, got, want)
		}
	}
	if got := OfDevice(twoSockets, "class/infiniband/mlx5_0/device"); got != 3 {
		t.Errorf("the RNIC is at %d", got)
	}
}
