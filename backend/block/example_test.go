package block_test

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend/block"
)

// A file that is not a block device is not opened.
func ExampleOpen() {
	_, err := block.Open("/dev/null", block.Config{ReadOnly: true})
	fmt.Println(err)
	// Output:
	// open store: /dev/null is not a block device
}
