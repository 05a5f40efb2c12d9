package multipath

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// The distance of a NUMA node to itself (ACPI 6.5, 5.2.17), and the largest distance.
const (
	localDistance       = 10
	unreachableDistance = 255
)

// nodes are the NUMA nodes of the machine. They are constant.
type nodes struct {
	distances map[rdmatransport.NUMANode][]int // to all nodes, by their index in order
	order     map[rdmatransport.NUMANode]int
}

// loadNodes reads the NUMA nodes from sysfs. It returns nil for a machine with one node, or without this information.
func loadNodes(sys fs.FS) *nodes {
	const dir = "devices/system/node"
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return nil
	}
	m := &nodes{map[rdmatransport.NUMANode][]int{}, map[rdmatransport.NUMANode]int{}}
	var ids []int
	for id := range 1 << 10 { // Linux's maximum; distances are in the order of the node numbers
		name := fmt.Sprintf("node%d", id)
		for _, e := range entries {
			if e.Name() == name {
				ids = append(ids, id)
			}
		}
	}
	for i, id := range ids {
		m.order[rdmatransport.NUMANode(id+1)] = i
		b, err := fs.ReadFile(sys, path.Join(dir, fmt.Sprintf("node%d", id), "distance"))
		if err != nil {
			return nil
		}
		for _, word := range strings.Fields(string(b)) {
			d, err := strconv.Atoi(word)
			if err != nil {
				return nil
			}
			m.distances[rdmatransport.NUMANode(id+1)] = append(m.distances[rdmatransport.NUMANode(id+1)], d)
		}
	}
	if len(ids) < 2 {
		return nil
	}
	return m
}

// distance returns the distance between two nodes, or localDistance if either is not known, as Linux does.
func (m *nodes) distance(from, to rdmatransport.NUMANode) int {
	if m == nil || from == 0 || to == 0 {
		return localDistance
	}
	row := m.distances[from]
	i, known := m.order[to]
	switch {
	case row == nil || !known:
		return localDistance
	case i >= len(row):
		return unreachableDistance
	}
	return row[i]
}

// currentNode returns the NUMA node of the processor that the caller runs on.
func currentNode() rdmatransport.NUMANode {
	var cpu, node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return 0
	}
	return rdmatransport.NUMANode(node + 1)
}
