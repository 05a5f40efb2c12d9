package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

func main() {
	o := options{}
	flag.DurationVar(&o.each, "each", 2*time.Second, "run each target for this `time`")
	flag.DurationVar(&o.all, "for", 0, "begin with no other package after this `time`")
	flag.IntVar(&o.from, "from", 0, "begin with the package of this `number`; larger ones count around")
	flag.StringVar(&o.match, "run", "", "run the targets whose names match this regular `expression`")
	flag.Parse()
	if err := o.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// options say which targets to run and for how long.
type options struct {
	each, all time.Duration
	from      int
	match     string
}

func (o *options) run(out io.Writer) error {
	match, err := regexp.Compile(o.match)
	if err != nil {
		return err
	}
	packages, err := find(".", match)
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return errors.New("no target has such a name")
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	r := runner{out: out, each: o.each, programs: dir, corpus: filepath.Join(strings.TrimSpace(string(cache)), "fuzz", module)}
	first := o.from % len(packages)
	r.todo = append(packages[first:len(packages):len(packages)], packages[:first]...)
	ctx := context.Background()
	if o.all > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.all)
		defer cancel()
	}
	return r.run(ctx, len(packages), first)
}

// A runner runs the targets of several packages at a time, one package per processor. That is better than one target
// with several workers, because programs are built meanwhile.
type runner struct {
	out      io.Writer
	each     time.Duration
	programs string // directory of the test programs
	corpus   string // directory of the inputs that reached new code

	mu      sync.Mutex // guards todo and the results, and out
	todo    []target
	targets int
	failed  []error
}

func (r *runner) run(ctx context.Context, all, first int) error {
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for p, ok := r.next(ctx); ok; p, ok = r.next(ctx) {
				r.fuzz(p)
			}
		})
	}
	workers.Wait()
	_, _ = fmt.Fprintf(r.out, "%d targets in %d of %d packages\n", r.targets, all-len(r.todo), all)
	if len(r.todo) > 0 {
		_, _ = fmt.Fprintf(r.out, "the rest with -from %d\n", (first+all-len(r.todo))%all)
	}
	return errors.Join(r.failed...)
}

func (r *runner) next(ctx context.Context) (p target, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.todo) == 0 || ctx.Err() != nil {
		return target{}, false
	}
	p, r.todo = r.todo[0], r.todo[1:]
	return p, true
}

// fuzz builds the test program of a package and runs its targets one after the other.
func (r *runner) fuzz(p target) {
	program := filepath.Join(r.programs, strings.ReplaceAll(p.dir, "/", "-")+".test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-fuzz=.", "-o", program, "./"+p.dir)
	if text, err := build.CombinedOutput(); err != nil {
		r.say(result{err: fmt.Errorf("%s does not build: %w\n%s", p.dir, err, text)})
		return
	}
	defer os.Remove(program) //nolint:errcheck // temporary
	for _, name := range p.names {
		c := exec.Command(program, "-test.run=^$", "-test.fuzz=^"+name+"$", "-test.fuzztime="+r.each.String(), "-test.fuzzminimizetime=20x",
			"-test.fuzzcachedir="+filepath.Join(r.corpus, p.dir), "-test.parallel=1", "-test.paniconexit0")
		c.Dir = p.dir
		text, err := c.CombinedOutput()
		r.say(judge(p.dir+" "+name, string(text), err))
	}
}

// say prints a result.
func (r *runner) say(got result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets++
	if got.err != nil {
		r.failed = append(r.failed, got.err)
		return
	}
	_, _ = fmt.Fprintf(r.out, "%-64s %9s runs, %s new\n", got.name, got.runs, got.found)
}
