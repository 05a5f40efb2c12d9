package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// tools by their names.
var tools = map[string]func(args []string, out io.Writer) error{
	"rping":        rping,
	"rdma_server":  rdmaServer,
	"rdma_client":  rdmaClient,
	"ib_send_bw":   perftest(opSend),
	"ib_write_bw":  perftest(opWrite),
	"ib_read_bw":   perftest(opRead),
	"ib_atomic_bw": perftest(opAtomic),
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 || tools[args[0]] == nil {
		return errors.New("want the name of a tool: rping, rdma_server, rdma_client, ib_send_bw, ib_write_bw, ib_read_bw or ib_atomic_bw, then its options")
	}
	if err := tools[args[0]](args[1:], out); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
