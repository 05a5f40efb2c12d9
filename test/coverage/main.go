package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// options say which tests to run and what to print.
type options struct {
	tests string
	keep  string
	all   bool
}

// errBelow is returned if a package is below its floor.
var errBelow = errors.New("packages are below their floors")

func (o *options) run(out io.Writer) error {
	dir, err := os.MkdirTemp("", "coverage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	testErr := test(dir, strings.Fields(o.tests), out)
	profile := cmp.Or(o.keep, filepath.Join(dir, "profile"))
	if err := run(out, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile); err != nil {
		return errors.Join(testErr, err)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return errors.Join(testErr, err)
	}
	blocks, err := parse(string(text))
	if err != nil {
		return errors.Join(testErr, err)
	}
	return errors.Join(testErr, report(out, perPackage(blocks), o.all))
}

// mostAgain is the maximum number of packages that are tested again.
const mostAgain = 3

// test runs all tests. Packages that failed are tested once more, one at a time, as .ci/run does: the machine may have
// been too busy for a test with a time limit.
func test(dir string, args []string, out io.Writer) error {
	var said bytes.Buffer
	err := testPackages(dir, args, io.MultiWriter(out, &said), "./...")
	again := failed(said.String())
	if err == nil || len(again) == 0 || len(again) > mostAgain {
		return err
	}
	_, _ = fmt.Fprintln(out, "again, alone:", strings.Join(again, " "))
	return testPackages(dir, append([]string{"-p=1"}, args...), out, again...)
}

// testPackages runs the tests of packages. The test programs and the processes that they start from their own
// executable write their counts into dir. The variable GOCOVERDIR is set by env, because go test would override it.
func testPackages(dir string, args []string, out io.Writer, packages ...string) error {
	args = append([]string{"test", "-count=1", "-covermode=set", "-coverpkg=./...", "-exec=env GOCOVERDIR=" + dir}, args...)
	args = append(args, packages...)
	return run(out, "go", append(args, "-args", "-test.gocoverdir="+dir)...)
}

var failedLine = regexp.MustCompile(`(?m)^FAIL\t(\S+)\s`)

// failed returns the packages whose tests failed, from the output of go test.
func failed(said string) (packages []string) {
	for _, m := range failedLine.FindAllStringSubmatch(said, -1) {
		packages = append(packages, m[1])
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

func run(out io.Writer, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = out, os.Stderr
	return c.Run()
}

// report prints a line for each package below its floor, or with all for each package.
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
