package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
)

type options struct {
	hours, minutes float64
	seed           uint64
	dir            string
	guest          bool
	program        string
	gremlin        string
	loss           float64
	pace           time.Duration
	killEvery      time.Duration
	stall          time.Duration
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == clientRole {
		if err := client.Run(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "soak: client:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.Float64Var(&o.hours, "hours", 0, "how long it runs")
	flag.Float64Var(&o.minutes, "minutes", 0, "how long it runs, besides -hours")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of all that is chosen by chance")
	flag.StringVar(&o.dir, "dir", "", "folder of files, records and counters, with which a later run goes on; default: none")
	flag.BoolVar(&o.guest, "guest", false, "let a Linux host in a guest take part; builds its image when missing, which needs root")
	flag.StringVar(&o.program, "program", "", "the program under test; default: built from this tree")
	flag.StringVar(&o.gremlin, "gremlin", "auto", "raw peer that attacks beside it: path of the program, none, or auto: built from this tree")
	flag.Float64Var(&o.loss, "loss", 0.01, "share of packets that the network loses; half as many come twice, as many out of order")
	flag.DurationVar(&o.pace, "pace", 60*time.Millisecond, "mean pause of a worker between two batches")
	flag.DurationVar(&o.killEvery, "kill", time.Minute, "how often a target is killed")
	flag.DurationVar(&o.stall, "stall", 90*time.Second, "how long a host may complete nothing")
	flag.Parse()
	if flag.NArg() > 0 || o.hours+o.minutes <= 0 {
		fmt.Fprintln(os.Stderr, "soak: -hours or -minutes say how long it runs")
		os.Exit(2)
	}
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// clientRole is the argument that makes this program run as a client.
const clientRole = "client-of-the-soak"

func run(o *options) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "soak"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(o.dir)
			}
		}()
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	for _, sub := range []string{"files", "tables", "bin"} {
		if err := os.MkdirAll(filepath.Join(o.dir, sub), 0o700); err != nil {
			return err
		}
	}
	lock, err := os.Create(filepath.Join(o.dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another run has it: %w", o.dir, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Duration((o.hours*60+o.minutes)*float64(time.Minute)))
	defer cancel()
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.sockets)) }()
	err = l.soak(ctx)
	fmt.Print(l.report())
	return errors.Join(err, l.save())
}
