package multipath

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func TestDistance(t *testing.T) {
	m := loadNodes(fstest.MapFS{
		"devices/system/node/node0/distance": {Data: []byte("10 21\n")},
		"devices/system/node/node2/distance": {Data: []byte("21 10\n")},
		"devices/system/node/online":         {Data: []byte("0,2\n")},
	})
	for _, tt := range []struct {
		from, to rdmatransport.NUMANode
		want     int
	}{{1, 1, 10}, {1, 3, 21}, {3, 1, 21}, {3, 3, 10}, {1, 0, localDistance}, {0, 3, localDistance}, {2, 3, localDistance}, {1, 2, localDistance}} {
		if got := m.distance(tt.from, tt.to); got != tt.want {
			t.Errorf("from %d to %d: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
	for name, sys := range map[string]fstest.MapFS{
		"nothing": {}, "one node": {"devices/system/node/node0/distance": {Data: []byte("10\n")}},
		"nonsense": {"devices/system/node/node0/distance": {Data: []byte("10 x\n")}, "devices/system/node/node1/distance": {Data: []byte("20 10\n")}},
	} {
		if m := loadNodes(sys); m != nil || m.distance(1, 2) != localDistance {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestCurrentNode(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0"); err != nil {
		t.Skip("the system shows no nodes")
	}
	if currentNode() == 0 {
		t.Error("this processor is nowhere")
	}
}
