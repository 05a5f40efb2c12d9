package main

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
)

const (
	idleHosts  = 100
	idleTime   = 6 * time.Second // longer than a keep alive interval
	crowdSize  = 1000
	crowdDepth = 32
	crowdData  = 0
	firstTimes = 20
	firstPause = 100 * time.Millisecond
	lossDelay  = 500 * time.Microsecond
	lossSeed   = 1
)

// idle measures the cost of connected hosts that do nothing.
func (l *lab) idle(g *group) error {
	p, err := l.pair(pairSpec{connect: true, depth: 128})
	if err != nil {
		return err
	}
	if err := p.host.Call("IdleHosts", idleHosts-1, &child.None{}); err != nil {
		return err
	}
	g.probe("idle", func() (s child.Sample, err error) {
		s.Share, err = busy(p.target.CPUTime, func() error {
			time.Sleep(idleTime)
			return nil
		})
		return s, err
	})
	first := child.FirstSpec{Times: firstTimes, Pause: firstPause}
	g.probe("first", func() (s child.Sample, err error) {
		err = p.host.Call("First", first, &s)
		return s, err
	})
	g.probe("raw first", l.rawFirst(readCommand, readResponse, first))
	g.plain("idle target, 100 hosts: share of a core", "%", atMost(2, 0.5), func(s child.Sample) float64 { return 100 * s.Share }, "idle")
	g.plain("first 4 KiB read after idleness", "us", atMost(150, 60), p50, "first")
	g.plain("  raw round trip after idleness", "us", shown, p50, "raw first")
	return nil
}

// crowd compares many concurrent connections with one.
func (l *lab) crowd(g *group) error {
	one, err := l.pair(pairSpec{connect: true})
	if err != nil {
		return err
	}
	many, err := l.pair(pairSpec{depth: crowdDepth + 1})
	if err != nil {
		return err
	}
	before, err := many.target.Resident()
	if err != nil {
		return err
	}
	spec := child.CrowdSpec{Connections: crowdSize, Depth: crowdDepth, Runtime: l.time, Ramp: l.ramp()}
	if err := many.host.Call("JoinCrowd", spec, &child.None{}); err != nil {
		return err
	}
	g.probe("one", one.load(child.Memory, load{bench.RandRead, kib4, crowdDepth, 0}))
	g.probe("crowd", func() (s child.Sample, err error) {
		if err := many.host.Call("Crowd", spec, &s); err != nil {
			return s, err
		}
		after, err := many.target.Resident() // reads do not touch the buffers for data in capsules
		s.PerUnit = float64(after-before) / crowdSize
		return s, err
	})
	g.ratio("1,000 connections x QD32: IOPS / one connection's", atLeast(0.6, 0.9), iops, "crowd", "one")
	g.plain("  slowest / median connection", "x", atLeast(0.4, 0.7), func(s child.Sample) float64 { return s.Slowest }, "crowd")
	perQueue := func(s child.Sample) float64 { return s.PerUnit / 1024 }
	g.plain("  target's memory per queue beyond data buffers", "KiB", atMost(128, 32), perQueue, "crowd")
	return nil
}

// loss measures long transfers over a network that loses packets, with a round trip of 1 ms.
func (l *lab) loss(g *group) error {
	p, err := child.Start(append(l.target(), l.host()...), child.RoleLossy)
	if err != nil {
		return err
	}
	l.later(p)
	for _, pattern := range []bench.Pattern{bench.Read, bench.Write} {
		w := load{pattern, kib128, 16, 0}
		for _, kind := range []struct {
			name      string
			loss      float64
			goal, aim float64
		}{
			{"no loss", 0, 0, 0}, {"0.1 %", 0.001, 0.8, 0.95}, {"1 %", 0.01, 0.5, 0.8}, {"5 %", 0.05, 0.15, 0.4},
		} {
			name := w.name() + " " + kind.name
			g.probe(name, func() (s child.Sample, err error) {
				err = p.Call("Load", child.LossySpec{Seed: lossSeed, Loss: kind.loss, Delay: lossDelay, Job: l.job(w)}, &s)
				return s, err
			})
			if kind.loss == 0 {
				g.plain("1 ms RTT "+name, "GB/s", shown, func(s child.Sample) float64 { return s.Throughput / 1e9 }, name)
				continue
			}
			g.ratio("1 ms RTT "+name+" lost / no loss", atLeast(kind.goal, kind.aim), bytes, name, w.name()+" no loss")
		}
	}
	return nil
}

// shards measures the gain of more loops on more processors.
func (l *lab) shards(g *group) error {
	const name, one, all = "4 KiB randread QD32, all shards / (shards x one shard)", "one", "all"
	n := min(len(l.targets), len(l.hosts))
	g.cells = append(g.cells, cell{name, "x", atLeast(0.7, 0.9), []string{one, all}, func(r round) float64 {
		return r[all].IOPS / (float64(n) * r[one].IOPS)
	}})
	if n < 2 {
		g.without("-target-cores and -host-cores name one processor each: name two or more", one, all)
		return nil
	}
	single, err := l.pair(pairSpec{connect: true})
	if err != nil {
		return err
	}
	several, err := l.pair(pairSpec{connect: true, target: l.targets[:n], host: l.hosts[:n]})
	if err != nil {
		return err
	}
	w := load{bench.RandRead, kib4, 32, 0}
	g.probe(one, single.load(child.Memory, w))
	g.probe(all, several.load(child.Memory, w))
	return nil
}
