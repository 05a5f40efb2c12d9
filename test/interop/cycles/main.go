// Command cycles connects to a subsystem, reads a block and disconnects, many times with no pause. Any error ends it
// with status 1.
//
//	cycles -host ADDR -addr ADDR -nqn NQN [-transport softroce] [-times 1000]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	nqn := flag.String("nqn", "", "name of the subsystem")
	transport := flag.String("transport", "softroce", "how this host reaches it: softroce or verbs")
	times := flag.Int("times", 1000, "how often")
	flag.Parse()
	start := time.Now()
	if err := run(*transport, *from, *to, *nqn, *times); err != nil {
		fmt.Println("cycles:", err)
		os.Exit(1)
	}
	fmt.Printf("# connected %d times in %.1f s\n", *times, time.Since(start).Seconds())
}

func run(transport, from, to, nqn string, times int) (err error) {
	a, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	b, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	dev, err := device.Open(transport, a, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	h, err := host.New(host.Config{Device: dev})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	options := host.Options{Traddr: b, NQN: nvmeof.NQN(nqn), NrIOQueues: 1}
	for i := range times {
		if err := once(h, options); err != nil {
			return fmt.Errorf("after %d times: %w", i, err)
		}
	}
	return nil
}

// once connects, reads and disconnects.
func once(h *host.Host, options host.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := h.Connect(ctx, options)
	if err != nil {
		return err
	}
	n, err := c.Namespace(ctx, 1)
	if err == nil {
		_, err = n.ReadAt(make([]byte, 4096), 0)
	}
	return errors.Join(err, c.Disconnect(ctx))
}
