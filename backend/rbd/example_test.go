package rbd_test

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

func ExampleParseName() {
	n, err := rbd.ParseName("rbd/team/disk@monday")
	fmt.Println(n.Pool, n.Namespace, n.Image, n.Snapshot, err)
	// Output: rbd team disk monday <nil>
}
