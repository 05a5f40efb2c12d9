package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/fio"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// fileRatios compares a file behind the fabric with fio on the same file, and with qemu-nbd serving it.
func (l *lab) fileRatios(g *group) error {
	path, err := l.newFile()
	if err != nil {
		return err
	}
	p, err := l.pair(pairSpec{connect: true, file: path})
	if err != nil {
		return err
	}
	noFIO := fio.Missing("io_uring")
	server, noQEMU := l.qemu(path)
	for _, kind := range []struct {
		load
		local report.Goal
	}{
		{load{bench.RandRead, kib4, 1, 0}, atLeast(0.85, 0.95)},
		{load{bench.RandWrite, kib4, 1, 0}, atLeast(0.85, 0.95)},
		{load{bench.RandRead, kib4, 32, 0}, atLeast(0.7, 0.9)},
		{load{bench.RandWrite, kib4, 32, 0}, atLeast(0.7, 0.9)},
		{load{bench.Read, kib128, 16, 0}, atLeast(0.7, 0.9)},
		{load{bench.Write, kib128, 16, 0}, atLeast(0.7, 0.9)},
	} {
		w := kind.load
		ours, local, remote := w.name(), "fio "+w.name(), "qemu-nbd "+w.name()
		g.probe(ours, p.load(child.File, w))
		g.probeUnless(noFIO, local, l.fio(w, path, nil, l.file))
		g.probeUnless(noQEMU, remote, l.fio(w, "", server, l.file))
		g.ratio("file "+ours+" / fio io_uring", kind.local, iops, ours, local)
		g.ratio("file "+ours+" / qemu-nbd", atLeast(1.2, 1.5), iops, ours, remote)
		g.plain("  file "+ours, "IOPS", shown, iops, ours)
	}
	return nil
}

// probeUnless adds a probe, or the reason why it is missing.
func (g *group) probeUnless(reason, name string, run func() (child.Sample, error)) {
	if reason != "" {
		g.without(reason, name)
		return
	}
	g.probe(name, run)
}

func (l *lab) qemu(path string) (server *fio.Server, reason string) {
	if reason := fio.Missing("nbd"); reason != "" {
		return nil, reason
	}
	server, err := fio.QEMU(l.target(), l.path("qemu-nbd"), path)
	if err != nil {
		return nil, firstLine(err)
	}
	l.later(server)
	return server, ""
}

// newFile creates the file and fills it with random bytes.
func (l *lab) newFile() (path string, err error) {
	path = l.path("disk.img")
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("%w (-dir names another folder)", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	source := rand.NewChaCha8([32]byte{})
	piece := make([]byte, 1<<20)
	for at := int64(0); at < l.file; at += int64(len(piece)) {
		_, _ = source.Read(piece) // never fails
		if _, err := f.Write(piece); err != nil {
			return "", fmt.Errorf("%w (-dir names another folder)", err)
		}
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	// With the file in the page cache, direct I/O would first have to remove it from there.
	return path, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// allocations counts the allocations of both ends per command, after the setup.
func (l *lab) allocations(g *group) error {
	path, err := l.newFile()
	if err != nil {
		return err
	}
	p, err := l.pair(pairSpec{connect: true, file: path})
	if err != nil {
		return err
	}
	perOp := func(s child.Sample) float64 { return float64(s.Allocs) / float64(s.Ops) }
	for _, kind := range []struct {
		name      string
		namespace int
		pattern   bench.Pattern
	}{
		{"memory read", child.Memory, bench.RandRead}, {"memory write", child.Memory, bench.RandWrite},
		{"file read", child.File, bench.RandRead}, {"file write", child.File, bench.RandWrite},
	} {
		g.probe(kind.name, func() (child.Sample, error) {
			return p.allocs(kind.namespace, load{kind.pattern, kib4, 32, 0})
		})
		// Less than one in a hundred comes from the Go runtime itself.
		g.plain(kind.name+": allocations per command, both ends", "", atMost(0.01, 0.01), perOp, kind.name)
	}
	return nil
}

// allocs runs a load for a short and for a long time. The difference excludes the allocations of the setup.
func (p *pair) allocs(namespace int, w load) (child.Sample, error) {
	short, long := p.lab.time/4, p.lab.time
	a, err := p.counted(namespace, w, short)
	if err != nil {
		return a, err
	}
	b, err := p.counted(namespace, w, long)
	if err != nil || b.Ops <= a.Ops {
		return b, errors.Join(err, fmt.Errorf("%d commands in %v, %d in %v", a.Ops, short, b.Ops, long))
	}
	return child.Sample{Ops: b.Ops - a.Ops, Allocs: max(a.Allocs, b.Allocs) - a.Allocs}, nil
}

func (p *pair) counted(namespace int, w load, d time.Duration) (child.Sample, error) {
	before, err := p.mallocs()
	if err != nil {
		return child.Sample{}, err
	}
	job := p.lab.job(w)
	job.Runtime, job.Ramp = d, 0
	s, err := p.run(child.LoadSpec{Namespace: namespace, Job: job})
	if err != nil {
		return s, err
	}
	after, err := p.mallocs()
	s.Allocs = after - before
	return s, err
}

func (p *pair) mallocs() (sum uint64, err error) {
	for _, c := range []*child.Process{p.target, p.host} {
		var n uint64
		if err := c.Call("Allocs", child.None{}, &n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
