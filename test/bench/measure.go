package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// Limits of what other processes may use, in processors.
const (
	quietBefore = 0.05
	quietWithin = 0.10
)

// measure runs all groups, unless other processes use the machine.
func measure(ctx context.Context, o options, progress io.Writer) (*report.Report, error) {
	r := &report.Report{Date: time.Now().UTC().Truncate(time.Second), Revision: revision(), Machine: machine(), Full: o.full}
	others, err := settle(ctx, o)
	if err != nil {
		return nil, err
	}
	if others > quietBefore && !o.force {
		return nil, fmt.Errorf("something else uses %.2f processors: stop it (top shows what it is), or report anyway with -force", others)
	}
	r.Others = others
	watch, err := process.NewWatch()
	if err != nil {
		return nil, err
	}
	l, err := newLab(o, progress)
	if err != nil {
		return nil, err
	}
	cells, err := l.measureAll(ctx)
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	within, err := watch.Others(l.daemons) // after the children have ended: only then is their use known
	if err != nil {
		return nil, err
	}
	if within > quietWithin && !o.force {
		return nil, fmt.Errorf("something else used %.2f processors meanwhile, so there is no report: run again, or with -force", within)
	}
	r.Others, r.Stolen = max(others, within), l.tally.share()
	if r.Stolen > stolenOften && !o.force {
		return nil, fmt.Errorf("the hypervisor gave the processors to other machines in %.0f %% of the measurements, each made %d times, so there is no report: run again, or with -force",
			100*r.Stolen, stolenTries)
	}
	r.Forced = others > quietBefore || within > quietWithin || r.Stolen > stolenOften
	r.Cells = cells
	return r, nil
}

// settle returns how many processors other processes use while this one does nothing: the least of a few tries. With
// -force it tries once, for no longer than a few measurements take.
func settle(ctx context.Context, o options) (least float64, err error) {
	least = float64(runtime.NumCPU())
	tries, each := 3, time.Second
	if o.force {
		tries, each = 1, min(each, 4*o.time)
	}
	for try := 0; try < tries && least > quietBefore; try++ {
		w, err := process.NewWatch()
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(each):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		others, err := w.Others(0)
		if err != nil {
			return 0, err
		}
		least = min(least, others)
	}
	return least, nil
}

// machine returns the kind of this machine.
func machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release := "?"
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
		if parts := strings.SplitN(release, ".", 3); len(parts) == 3 {
			release = parts[0] + "." + parts[1]
		}
	}
	return fmt.Sprintf("%s, %d processors, Linux %s, %s", model, runtime.NumCPU(), release, runtime.Version())
}

// revision returns the revision of the source, which `go run` does not put into the program.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown revision"
	}
	return strings.TrimSpace(string(out))
}
