// Command gremlin attacks any NVMe/RDMA target over RoCEv2 and measures the effect on an honest host beside it:
//
//	go run ./test/gremlin -target ADDR
//
// It is a raw peer, which assembles every packet, management datagram and capsule itself (see packages packet and
// peer), and runs a catalogue of attacks, one after the other. They are peers that take resources that others need,
// floods, everything malformed that a peer can send, and seeded mutations of valid traffic.
//
// Beside it, in a process of its own, works an honest host: one of package host, or the block device of another host.
// Its rate and latencies are measured before, during and after each attack. New hosts connect meanwhile. The target's
// resources after the attack are compared with those before. The first MiB of namespace 1 is overwritten, and mutated
// commands may write anywhere in it.
//
//	go run ./test/gremlin -listen ADDR
//
// is a target that misbehaves, in another way for each host that connects. With -host it attacks package host. -list
// prints the names of all attacks; -only selects some.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if os.Getenv(besideEnv) != "" {
		if err := serveBeside(ctx, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gremlin: host:", err)
			stop()
			os.Exit(1) //nolint:gocritic // nothing else is deferred
		}
		return
	}
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gremlin:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		for _, a := range catalogue() {
			fmt.Printf("%-22s %s\n", a.name, a.sent)
		}
		for _, m := range malices() {
			fmt.Printf("%-22s a target that %s\n", m.name, m.does)
		}
		return nil
	case o.listen.IsValid():
		return listen(ctx, o, os.Stdout)
	default:
		return attackTarget(ctx, o, os.Stdout)
	}
}
