package host_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// program writes a block of a namespace, makes it durable and reads it back.
func program(ctx context.Context, local, target netip.Addr, nqn nvmeof.NQN) error {
	device, err := softroce.Open(softroce.Config{Addr: local})
	if err != nil {
		return err
	}
	defer device.Close()
	h, err := host.New(host.Config{Device: device})
	if err != nil {
		return err
	}
	defer h.Close() // disconnects as well
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := h.Connect(ctx, host.Options{Traddr: target, NQN: nqn})
	if err != nil {
		return err
	}
	n, err := c.Namespace(ctx, 1)
	if err != nil {
		return err
	}
	block := make([]byte, n.BlockSize())
	copy(block, "written by a Go program")
	if _, err := n.WriteAtContext(ctx, block, 0); err != nil {
		return err
	}
	if err := n.FlushContext(ctx); err != nil {
		return err
	}
	text := make([]byte, 23) // reads need not be whole blocks
	_, err = n.ReadAtContext(ctx, text, 0)
	fmt.Printf("%q of %d bytes\n", text, n.Size())
	return err
}

// A complete program, with a target in the same process at the other end.
func Example_program() {
	b := newBench()
	defer b.close()
	if err := program(context.Background(), netip.MustParseAddr("127.80.0.3"), b.at.Traddr, b.at.NQN); err != nil {
		log.Panic(err)
	}
	// Output:
	// "written by a Go program" of 1048576 bytes
}
