// Command library tests the commands of package host against a target. It prints a line for each check: its name, then
// "ok", "unsupported" or "FAIL" with the error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/test/interop/device"
)

func main() {
	from := flag.String("host", "", "address of this host")
	to := flag.String("addr", "", "address of the target")
	transport := flag.String("transport", "softroce", "how this host reaches it: softroce or verbs")
	nqn := flag.String("nqn", "", "name of the subsystem, whose namespace 1 is overwritten")
	flag.Parse()
	if err := run(*transport, *from, *to, *nqn, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

const limit = 2 * time.Minute

func run(transport, from, to, nqn string, out io.Writer) (err error) {
	a, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	b, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	dev, err := device.Open(transport, a, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	h, err := host.New(host.Config{Device: dev})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	options := host.Options{Traddr: b, NQN: nvmeof.NQN(nqn), NrIOQueues: 2}
	c, err := h.Connect(ctx, options)
	if err != nil {
		return err
	}
	n, err := c.Namespace(ctx, 1)
	if err != nil {
		return err
	}
	failed := 0
	for _, x := range checks {
		switch err := x.run(ctx, c, n); {
		case err == nil:
			fmt.Fprintf(out, "%s: ok\n", x.name)
		case errors.Is(err, host.ErrUnsupported):
			fmt.Fprintf(out, "%s: unsupported: %v\n", x.name, err)
		default:
			failed++
			fmt.Fprintf(out, "%s: FAIL: %v\n", x.name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return c.Disconnect(ctx)
}
