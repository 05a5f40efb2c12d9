package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	o := options{}
	flag.StringVar(&o.folder, "folder", "nvmeof/target", "count the packages of this `folder`")
	flag.BoolVar(&o.list, "v", false, "list each call and each reference back up")
	flag.IntVar(&o.maxCalls, "max-calls", 24, "fail where a READ makes more calls than this `number`")
	flag.IntVar(&o.maxUp, "max-up", 20, "fail where more references than this `percentage` go back up")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "crossings:", err)
		os.Exit(1)
	}
}

// options say what to count, and the limits.
type options struct {
	folder          string
	list            bool
	maxCalls, maxUp int
}

func (o *options) run() error {
	t, err := load(o.folder)
	if err != nil {
		return err
	}
	if f := t.embedded(); len(f) > 0 {
		return fmt.Errorf("types of another package of the folder are embedded:\n%s", strings.Join(f, "\n"))
	}
	up, all := t.references()
	percent := 100 * len(up) / max(all, 1)
	fmt.Printf("references within %s: %d, of which %d go back up (%d %%)\n", o.folder, all, len(up), percent)
	if o.list {
		for _, r := range up {
			fmt.Println("\t" + r)
		}
	}
	read, err := t.callsOf(o.folder)
	if err != nil {
		return err
	}
	within, calls := 0, 0
	for _, c := range read {
		calls += c.times
		if c.within {
			within += c.times
		}
		if o.list {
			fmt.Printf("\t%d × %s: %s calls %s\n", c.times, c.at, c.from, c.to)
		}
	}
	fmt.Printf("calls between packages for a READ of 4 KiB: %d, of which %d between packages of %s\n", calls, within, o.folder)
	switch {
	case calls > o.maxCalls:
		return fmt.Errorf("a READ makes %d calls between packages, at most %d are wanted: see -v", calls, o.maxCalls)
	case percent > o.maxUp:
		return fmt.Errorf("%d %% of the references go back up, at most %d %% are wanted: see -v", percent, o.maxUp)
	}
	return nil
}
