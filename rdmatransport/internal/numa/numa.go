// Package numa finds the NUMA node of a device from Linux's /sys.
package numa

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// OfDevice returns the node of a device, given its directory in sys.
func OfDevice(sys fs.FS, device string) rdmatransport.NUMANode {
	b, err := fs.ReadFile(sys, path.Join(device, "numa_node"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 { // -1: not reported by the firmware
		return 0
	}
	return rdmatransport.NUMANode(n + 1)
}

// maxLayers is the maximum number of stacked interfaces, such as a VLAN on a bond.
const maxLayers = 4

// OfInterface returns the node of a network interface. For a stacked interface it is the node of those below, if they
// are all on the same one.
func OfInterface(sys fs.FS, name string) rdmatransport.NUMANode {
	return ofInterface(sys, name, maxLayers)
}

func ofInterface(sys fs.FS, name string, layers int) rdmatransport.NUMANode {
	dir := path.Join("class/net", name)
	if n := OfDevice(sys, path.Join(dir, "device")); n != 0 || layers == 0 {
		return n
	}
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return 0
	}
	var all rdmatransport.NUMANode
	for _, e := range entries {
		lower, ok := strings.CutPrefix(e.Name(), "lower_")
		if !ok {
			continue
		}
		n := ofInterface(sys, lower, layers-1)
		if n == 0 || all != 0 && n != all {
			return 0
		}
		all = n
	}
	return all
}
