// Package numa says at which of the machine's NUMA nodes a device is, by what Linux shows
// below /sys.
package numa

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// OfDevice is the node of a device, by its folder below sys.
func OfDevice(sys fs.FS, device string) rdmatransport.NUMANode {
	b, err := fs.ReadFile(sys, path.Join(device, "numa_node"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 { // -1: the firmware does not say
		return 0
	}
	return rdmatransport.NUMANode(n + 1)
}

// maxLayers bounds how many interfaces lie over each other: a VLAN on a bond, say.
const maxLayers = 4

// OfInterface is the node of a network interface, or of those below it if they are at the
// same one.
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
