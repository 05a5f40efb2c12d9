package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	o := options{}
	flag.StringVar(&o.tests, "test", "", "`arguments` of go test besides, such as -short or -tags=verbs")
	flag.StringVar(&o.keep, "profile", "", "write the profile to this `file`, for go tool cover")
	flag.BoolVar(&o.all, "v", false, "list also the packages that are above their floor")
	flag.Parse()
	if err := o.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// options are which tests are run, and what is said.
type options struct {
	tests string
	keep  string
	all   bool
}

// errBelow: a package is below its floor.
var errBelow = errors.New("packages are below their floors")

func (o *options) run(out io.Writer) error {
	dir, err := os.MkdirTemp("", "coverage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	failed := test(dir, strings.Fields(o.tests), out)
	profile := cmp.Or(o.keep, filepath.Join(dir, "profile"))
	if err := run(out, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile); err != nil {
		return errors.Join(failed, err)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return errors.Join(failed, err)
	}
	blocks, err := parse(string(text))
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, report(out, perPackage(blocks), o.all))
}

// test runs all tests. Not only the test programs leave their counts in dir: so does each
// process that they start from their own file. go test would set that variable itself.
func test(dir string, args []string, out io.Writer) error {
	args = append([]string{"test", "-count=1", "-covermode=set", "-coverpkg=./...", "-exec=env GOCOVERDIR=" + dir}, args...)
	return run(out, "go", append(args, "./...", "-args", "-test.gocoverdir="+dir)...)
}

func run(out io.Writer, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = out, os.Stderr
	return c.Run()
}

// report prints a line for each package that is below its floor, or with all for each one.
func report(out io.Writer, packages map[string]count, all bool) error {
	var below error
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		n, floor := packages[pkg], floorOf(pkg)
		low := n.percent() < floor
		if low {
			below = errBelow
		}
		if low || all {
			_, _ = fmt.Fprintf(w, "%s\t%.1f %%\tof %d statements\t%s\n", pkg, n.percent(), n.all, verdict(pkg, floor, low))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return below
}

func verdict(pkg string, floor float64, low bool) string {
	switch {
	case low:
		return fmt.Sprintf("BELOW its floor of %.0f %%", floor)
	case floor == 0:
		return "exempt: " + exemption(pkg)
	}
	return ""
}
