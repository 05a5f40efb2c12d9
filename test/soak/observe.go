package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const every = 5 * time.Second // interval between samples

// watch checks that processes run and hosts make progress, and samples the processes' resource use.
func (l *lab) watch(ctx context.Context, _ *rand.Rand) {
	saved := time.Now()
	for pause(ctx, every) {
		l.ended()
		l.stalled()
		for name, p := range l.processes() {
			if l.isKilled(name) {
				continue
			}
			s, err := look(p.pid())
			if err != nil {
				continue // it has just ended, which l.ended reports
			}
			s.Goroutines = l.goroutines(ctx, name)
			l.note(name, s)
		}
		if s, err := look(os.Getpid()); err == nil {
			s.Goroutines = runtime.NumGoroutine()
			l.note("soak", s)
		}
		if time.Since(saved) > time.Minute {
			saved = time.Now()
			if err := l.save(); err != nil {
				l.violation("the counters: %v", err)
			}
		}
	}
}

// isKilled reports whether a process is killed so often that its growth says nothing.
func (l *lab) isKilled(name string) bool {
	if name == "target kept" {
		return true
	}
	for _, h := range l.hosts {
		if h.plan.killEvery > 0 && strings.HasSuffix(name, " "+h.plan.name) {
			return true
		}
	}
	return false
}

func (l *lab) note(name string, s sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since[name].IsZero() {
		l.since[name] = time.Now()
	}
	s.At = time.Since(l.since[name])
	fmt.Fprintf(l.usage, "%s,%d,%s,%d,%d,%d,%d\n", time.Now().UTC().Format(time.DateTime), l.totals.Pieces, name, s.RSS, s.FDs, s.Threads, s.Goroutines)
	if !l.attacked.IsZero() && time.Since(l.attacked) < quiet {
		return // the attack would distort it
	}
	l.samples[name] = thin(append(l.samples[name], s))
}

// goroutines returns the number of goroutines of a process, if it reports it.
func (l *lab) goroutines(ctx context.Context, name string) int {
	kind, name, _ := strings.Cut(name, " ")
	if kind == "target" {
		var s control.Status
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := l.targets[name].api.Do(ctx, "GET", "/v1/status", nil, nil, &s); err != nil {
			return 0
		}
		return s.Goroutines
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		if kind == "host" && h.plan.name == name && h.now != nil {
			return h.now.Goroutines
		}
	}
	return 0
}

// ended reports processes that exited by themselves.
func (l *lab) ended() {
	for name, p := range l.processes() {
		if p.unexpected() {
			l.violation("%s has ended: %v\n%s", name, p.err, strings.Join(p.lines(), "\n"))
		}
	}
}

// stalled reports hosts that make no progress.
func (l *lab) stalled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		idle := time.Since(h.progress)
		if idle > l.o.stall {
			l.violation("%s has had no answer for %.0f s", h.plan.name, idle.Seconds())
		}
		l.totals.Stall = max(l.totals.Stall, idle)
	}
}
