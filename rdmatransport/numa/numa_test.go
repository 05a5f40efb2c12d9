package numa

import (
	"os"
	"testing"
	"testing/fstest"
)

// twoSockets has a network card at each node, a bond of each kind, and a VLAN.
var twoSockets = fstest.MapFS{
	"devices/system/node/node0/distance":       {Data: []byte("10 21\n")},
	"devices/system/node/node2/distance":       {Data: []byte("21 10\n")},
	"devices/system/node/online":               {Data: []byte("0,2\n")},
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
	for name, want := range map[string]Node{
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

func TestDistance(t *testing.T) {
	m := Load(twoSockets)
	for _, tt := range []struct {
		from, to Node
		want     int
	}{{1, 1, 10}, {1, 3, 21}, {3, 1, 21}, {3, 3, 10}, {1, 0, Local}, {0, 3, Local}, {2, 3, Local}, {1, 2, Local}} {
		if got := m.Distance(tt.from, tt.to); got != tt.want {
			t.Errorf("from %d to %d: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
	for name, sys := range map[string]fstest.MapFS{
		"nothing": {}, "one node": {"devices/system/node/node0/distance": {Data: []byte("10\n")}},
		"nonsense": {"devices/system/node/node0/distance": {Data: []byte("10 x\n")}, "devices/system/node/node1/distance": {Data: []byte("20 10\n")}},
	} {
		if m := Load(sys); m != nil || m.Distance(1, 2) != Local {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestHere(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0"); err != nil {
		t.Skip("the system shows no nodes")
	}
	if Here() == 0 {
		t.Error("this processor is nowhere")
	}
}
