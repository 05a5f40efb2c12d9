package rdmatest_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// Devices within one process, without packets, for tests of code that uses RDMA.
func ExampleLoopback() {
	network := rdmatest.NewLoopback()
	addr := netip.MustParseAddr("192.0.2.1")
	device := must(network.Open(addr, rdmatest.Attrs()))
	defer device.Close()
	fmt.Println(device.Attrs().Provider)
	_, err := network.Open(addr, rdmatest.Attrs())
	fmt.Println(err)
	// Output:
	// loopback
	// loopback: address 192.0.2.1 is taken
}
