package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// A lab is the environment in which groups measure.
type lab struct {
	options
	progress io.Writer
	dir      string // removed at the end
	next     netip.Addr
	floor    *child.Process
	closers  []io.Closer // of the group that is being measured
	tally    tally
	daemons  time.Duration // processor time of servers that are not children
}

// A groupKind is a group that is not set up yet.
type groupKind struct {
	name  string
	full  bool // only with -full
	setUp func(*lab, *group) error
}

func groupKinds() []groupKind {
	return []groupKind{
		{"latency", false, (*lab).latency},
		{"rate", false, (*lab).rate},
		{"attach", false, (*lab).attach},
		{"goodput", false, (*lab).goodput},
		{"alone", false, (*lab).alone},
		{"metrics", false, (*lab).metrics},
		{"file", false, (*lab).fileRatios},
		{"rbd", true, (*lab).images},
		{"allocations", false, (*lab).allocations},
		{"idle", true, (*lab).idle},
		{"crowd", true, (*lab).crowd},
		{"loss", true, (*lab).loss},
		{"shards", true, (*lab).shards},
	}
}

func groupNames() (names string) {
	for _, k := range groupKinds() {
		names += " " + k.name
	}
	return names[1:]
}

func newLab(o options, progress io.Writer) (*lab, error) {
	dir, err := os.MkdirTemp(o.dir, "nvmeof-bench-")
	if err != nil {
		return nil, fmt.Errorf("%w (-dir names another folder)", err)
	}
	// A random part of 127/8, so that concurrent runs use different addresses.
	first := netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(250)), 1})
	l := &lab{options: o, progress: progress, dir: dir, next: first}
	cores := process.Cores{o.targets[0], o.hosts[0]}
	if l.floor, err = child.Start(cores, child.RoleFloor); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

// Close ends all processes that remain, and removes the folder.
func (l *lab) Close() error {
	return errors.Join(l.clear(), l.floor.Close(), os.RemoveAll(l.dir))
}

// clear ends what the group has started, in reverse order.
func (l *lab) clear() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i].Close())
	}
	l.closers = nil
	return errors.Join(errs...)
}

func (l *lab) later(c io.Closer) { l.closers = append(l.closers, c) }

// addr returns an address of this machine that is not used yet.
func (l *lab) addr() netip.Addr {
	l.next = l.next.Next()
	return l.next
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

// target and host return the processor of one shard.
func (l *lab) target() process.Cores { return l.targets[:1] }
func (l *lab) host() process.Cores   { return l.hosts[:1] }

func (l *lab) measureAll(ctx context.Context) (cells []report.Cell, err error) {
	for _, k := range groupKinds() {
		wanted := l.full || !k.full
		if l.only != nil {
			wanted = l.only.MatchString(k.name)
		}
		if !wanted {
			continue
		}
		found, err := l.measureGroup(ctx, k)
		if err = errors.Join(err, l.clear()); err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		cells = append(cells, found...)
	}
	return cells, nil
}

func (l *lab) measureGroup(ctx context.Context, k groupKind) ([]report.Cell, error) {
	var g group
	report := func(what string) { fmt.Fprintf(l.progress, "%s: %s\n", k.name, what) }
	report("setting up")
	if err := k.setUp(l, &g); err != nil {
		return nil, err
	}
	cells, err := g.measure(ctx, l.rounds, report)
	l.tally.taken += g.tally.taken
	l.tally.disturbed += g.tally.disturbed
	return cells, err
}
