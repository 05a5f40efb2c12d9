package capsule_test

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Read of eight blocks, as in a capsule, and a possible response of a controller.
func Example() {
	c := capsule.Command{Opcode: capsule.Opcode(capsule.IORead), CID: 7, NSID: 1}
	capsule.ReadWrite{SLBA: 0x1000, Blocks: 8}.Put(&c)
	b := make([]byte, capsule.CommandSize)
	c.Encode(b)
	fmt.Printf("% x\n", b[:8])
	fmt.Printf("% x\n", b[40:52])
	status := capsule.StatusLBAOutOfRange | capsule.StatusDNR
	fmt.Println(status, status.OK())
	// Output:
	// 02 00 07 00 01 00 00 00
	// 00 10 00 00 00 00 00 00 07 00 00 00
	// LBA out of range (0/80, DNR) false
}
