package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Passthru prints a command with so much data as `nvme admin-passthru --show-command`
// does. Its addresses are zero: they would be those of a buffer.
func (o Output) Passthru(c *capsule.Command, length int) error {
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "opcode       : %02x\nflags        : %02x\nrsvd1        : 0000\nnsid         : %08x\n", uint8(c.Opcode), uint8(0), uint32(c.NSID))
		fmt.Fprintf(b, "cdw2         : %08x\ncdw3         : %08x\ndata_len     : %08x\nmetadata_len : 00000000\n", c.CDW2, c.CDW3, length)
		b.WriteString("addr         : 0\nmetadata     : 0\n")
		for i, v := range []uint32{c.CDW10, c.CDW11, c.CDW12, c.CDW13, c.CDW14, c.CDW15} {
			fmt.Fprintf(b, "cdw%d        : %08x\n", 10+i, v)
		}
		b.WriteString("timeout_ms   : 00000000\n")
	})
}
