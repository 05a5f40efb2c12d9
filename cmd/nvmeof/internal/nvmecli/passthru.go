package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Passthru prints a command with length bytes of data as `nvme admin-passthru --show-command` does. The timeout is in
// milliseconds; 0 means the default. The addresses are printed as zero, since there they would be those of a buffer.
func (o Output) Passthru(c *capsule.Command, length int, timeout uint32) error {
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "opcode       : %02x\nflags        : %02x\nrsvd1        : 0000\nnsid         : %08x\n", uint8(c.Opcode), uint8(0), uint32(c.NSID))
		fmt.Fprintf(b, "cdw2         : %08x\ncdw3         : %08x\ndata_len     : %08x\nmetadata_len : 00000000\n", c.CDW2, c.CDW3, length)
		b.WriteString("addr         : 0\nmetadata     : 0\n")
		for i, v := range []uint32{c.CDW10, c.CDW11, c.CDW12, c.CDW13, c.CDW14, c.CDW15} {
			fmt.Fprintf(b, "cdw%d        : %08x\n", 10+i, v)
		}
		fmt.Fprintf(b, "timeout_ms   : %08x\n", timeout)
	})
}

// ReadWrite prints a command for a namespace without storage tags as `nvme read --show-command` does.
func (o Output) ReadWrite(c *capsule.Command) error {
	f := c.ReadWrite()
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "opcode       : %02x\nnsid         : %02x\nflags        : 00\ncontrol      : %04x\nnblocks      : %04x\n",
			uint8(c.Opcode), uint32(c.NSID), c.CDW12>>16, f.Blocks-1)
		b.WriteString("metadata     : 0\naddr         : 0\n")
		fmt.Fprintf(b, "slba         : %x\ndsmgmt       : %08x\nreftag       : %x\napptag       : %04x\nappmask      : %04x\n",
			uint64(f.SLBA), c.CDW13, c.CDW14, c.CDW15&0xffff, c.CDW15>>16)
		fmt.Fprintf(b, "storagetagcheck : %04x\nstoragetag      : 0\npif             : 00\nsts             : 00\n", c.CDW12>>24&1)
	})
}
