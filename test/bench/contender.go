package main

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/fio"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// A load is the load of all contenders.
type load struct {
	pattern bench.Pattern
	size    int // bytes of each request
	depth   int
	region  int64 // size of the loaded part in bytes; 0: all
}

func (l *lab) job(w load) bench.Job {
	return bench.Job{Pattern: w.pattern, BlockSize: w.size, Depth: w.depth, Size: w.region, Runtime: l.time, Ramp: l.ramp()}
}

// A pair is a target and a host of ours, the host connected to the target.
type pair struct {
	lab          *lab
	target, host *child.Process
}

// A pairSpec configures a pair. The zero value means one shard each and the defaults.
type pairSpec struct {
	target, host process.Cores // default: one each
	inCapsule    int           // see target.Config
	depth        int           // entries of a queue; default 256
	alone        bool          // the host sends and receives packets one by one
	file         string        // path of a file; it is namespace 2
	images       []string      // Ceph images, from namespace 2 on
	conf         string        // the Ceph cluster's configuration file
	connect      bool          // connects one controller
	unmeasured   bool          // the target counts no commands
	scraped      bool          // its metrics are read each second, and it keeps events in a file
	captured     bool          // its packets are captured
	paths        bool          // the host connects by package multipath
	hostUnseen   bool          // with paths: the host counts no requests
	hostScraped  bool          // with paths: the host's metrics are read each second
	shared       bool          // both may run on the processors of both(), with one shard each
	data         int           // bytes of data memory of each shard, if the default is too little
}

// memoryForData is enough for the largest load, in bytes for each shard.
const memoryForData = 16 * 128 << 10

func (l *lab) pair(spec pairSpec) (*pair, error) {
	if spec.target == nil {
		spec.target, spec.host = l.lab1()
	}
	targetShards, hostShards := len(spec.target), len(spec.host)
	if spec.shared {
		spec.target, spec.host = l.both(), l.both()
	}
	if spec.depth == 0 {
		spec.depth = 256
	}
	p := &pair{lab: l}
	var err error
	if p.target, err = child.Start(spec.target, child.RoleTarget); err != nil {
		return nil, err
	}
	l.later(p.target)
	at := l.addr()
	events := ""
	if spec.scraped {
		events = l.path("events")
	}
	err = p.target.Call("Start", child.TargetSpec{
		Addr: at, Shards: targetShards, InCapsule: spec.inCapsule, QueueDepth: spec.depth, Memory: l.memory, File: spec.file, Images: spec.images, Conf: spec.conf,
		Unmeasured: spec.unmeasured, Scraped: spec.scraped, Captured: spec.captured, Events: events,
	}, &child.None{})
	if err != nil {
		return nil, err
	}
	if p.host, err = child.Start(spec.host, child.RoleHost); err != nil {
		return nil, err
	}
	l.later(p.host)
	err = p.host.Call("Open", child.HostSpec{
		Addr: l.addr(), Target: at, Shards: hostShards, QueueSize: spec.depth, Alone: spec.alone,
		Buffers: hostShards * max(memoryForData, spec.data), Paths: spec.paths, Unmeasured: spec.hostUnseen, Scraped: spec.hostScraped,
	}, &child.None{})
	if err != nil || !spec.connect {
		return p, err
	}
	return p, p.connect()
}

func (l *lab) lab1() (target, host process.Cores) { return l.target(), l.host() }

// connect connects, and verifies that data arrive unchanged.
func (p *pair) connect() error {
	if err := p.host.Call("Connect", child.None{}, &child.None{}); err != nil {
		return err
	}
	check := child.LoadSpec{Namespace: child.Memory, Job: bench.Job{
		Pattern: bench.RandWrite, BlockSize: 64 << 10, Depth: 8, Runtime: p.lab.time / 4, Verify: true,
	}}
	return p.host.Call("Verify", check, &child.None{})
}

// cpu returns the processor time that both processes have used.
func (p *pair) cpu() (time.Duration, error) {
	t, err := p.target.CPUTime()
	if err != nil {
		return 0, err
	}
	h, err := p.host.CPUTime()
	return t + h, err
}

// load returns a probe of a namespace.
func (p *pair) load(namespace int, w load) func() (child.Sample, error) {
	return func() (child.Sample, error) { return p.run(child.LoadSpec{Namespace: namespace, Job: p.lab.job(w)}) }
}

func (p *pair) run(spec child.LoadSpec) (s child.Sample, err error) {
	used, err := busy(p.cpu, func() error {
		return p.host.Call("Load", spec, &s)
	})
	s.CPU = used
	return s, err
}

// busy returns how many processors were used while f ran.
func busy(cpu func() (time.Duration, error), f func() error) (float64, error) {
	start := time.Now()
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpu()
	return (after - before).Seconds() / time.Since(start).Seconds(), err
}

// fioJob returns a job of fio for a load.
func (l *lab) fioJob(w load, size int64) fio.Job {
	j := fio.Job{Pattern: w.pattern.String(), BlockSize: w.size, Depth: w.depth, Size: size, Runtime: l.time, Ramp: l.ramp()}
	if w.region > 0 {
		j.Size = w.region
	}
	return j
}

// fio returns a probe with fio, of a file or of a server.
func (l *lab) fio(w load, file string, server *fio.Server, size int64) func() (child.Sample, error) {
	j := l.fioJob(w, size)
	j.File = file
	return func() (child.Sample, error) {
		if server == nil {
			r, err := fio.Run(l.host(), j)
			return child.Sample{IOPS: r.IOPS, CPU: r.CPU}, err
		}
		j.URI = server.URI()
		before, err := server.CPUTime()
		if err != nil {
			return child.Sample{}, err
		}
		r, err := fio.Run(l.host(), j)
		if err != nil {
			return child.Sample{}, err
		}
		after, err := server.CPUTime()
		// fio takes some time to start, in which neither process works.
		used := r.CPU + (after-before).Seconds()/(l.time+l.ramp()).Seconds()
		return child.Sample{IOPS: r.IOPS, CPU: used}, err
	}
}

// name is the name of the load in the table.
func (w load) name() string {
	return fmt.Sprintf("%s %s QD%d", bench.Bytes(w.size), w.pattern, w.depth)
}
