package numa_test

import (
	"fmt"
	"testing/fstest"

	"github.com/nvmeof-go/nvmeof/rdmatransport/numa"
)

// Two nodes, as the firmware describes them.
func ExampleLoad() {
	m := numa.Load(fstest.MapFS{
		"devices/system/node/online":         {Data: []byte("0-1\n")},
		"devices/system/node/node0/distance": {Data: []byte("10 21\n")},
		"devices/system/node/node1/distance": {Data: []byte("21 10\n")},
	})
	fmt.Println(m.Distance(1, 2), m.Distance(1, 1), m.Distance(0, 1))
	// Output:
	// 21 10 10
}
