package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/fio"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
	"github.com/nvmeof-go/nvmeof/test/ceph"
)

// An imageLoad is the load of each of several images at the same time. All contenders use the same images, one after
// the other: each acquires their exclusive locks.
type imageLoad struct {
	load
	images int
}

func (w imageLoad) name() string {
	if w.images == 1 {
		return w.load.name()
	}
	return fmt.Sprintf("%s of %d images", w.load.name(), w.images)
}

// mostImages is the number of images.
const mostImages = 64

// images compares images of Ceph behind the fabric with fio's rbd engine on the same images, and with qemu-nbd serving
// one of them. The cluster, a monitor and an OSD, uses the same processors.
func (l *lab) images(g *group) error {
	i, missing, err := l.newImages()
	if err != nil {
		return err
	}
	for _, n := range []int{1, 8, mostImages} {
		for _, p := range []bench.Pattern{bench.RandRead, bench.RandWrite} {
			w := imageLoad{load{p, kib4, 32, 0}, n}
			ours, local, remote := w.name(), "fio "+w.name(), "qemu-nbd "+w.name()
			if missing != "" {
				g.without(missing, ours, local, remote)
			} else {
				g.probe(ours, func() (child.Sample, error) { return i.fabric(w) })
				g.probe(local, func() (child.Sample, error) { return i.fio(w) })
			}
			g.ratio("rbd "+ours+" / fio rbd", atLeast(0.9, 1), iops, ours, local)
			if n == 1 {
				if missing == "" {
					g.probe(remote, func() (child.Sample, error) { return i.qemu(w) })
				}
				g.ratio("rbd "+ours+" / qemu-nbd", atLeast(1, 1.2), iops, ours, remote)
			}
			g.plain("  rbd "+ours, "IOPS", shown, iops, ours)
			g.plain("  target and host", "us/op", shown, perOperation, ours)
			g.plain("  fio", "us/op", shown, perOperation, local)
			g.plain("  the OSD, behind the target", "us/op", shown, storePerOperation, ours)
			g.plain("  the OSD, behind fio", "us/op", shown, storePerOperation, local)
		}
	}
	return nil
}

// perOperation returns the processor time per operation in microseconds.
func perOperation(s child.Sample) float64 { return s.CPU / s.IOPS * 1e6 }

func storePerOperation(s child.Sample) float64 { return s.Store / s.IOPS * 1e6 }

// An imageLab is a cluster with images.
type imageLab struct {
	*lab
	cluster *ceph.Cluster
	starts  map[int]time.Duration // processor time of fio to start and end, by the number of images
}

// newImages starts a cluster, and creates images and fills them. If a program for that is missing it says so.
func (l *lab) newImages() (i *imageLab, missing string, err error) {
	lacks := ceph.Missing()
	switch {
	case !rbd.Built:
		return nil, "built without -tags rbd", nil
	case len(lacks) > 0:
		return nil, "no " + strings.Join(lacks, ", "), nil
	}
	if missing := fio.Missing("rbd"); missing != "" {
		return nil, missing, nil
	}
	i = &imageLab{lab: l, starts: map[int]time.Duration{}}
	if i.cluster, err = ceph.Start(l.path("ceph"), l.addr().String()+":13300", 1); err != nil {
		return nil, "", err
	}
	l.later(stopper{i.cluster, l})
	for _, name := range names(mostImages) {
		if _, err := i.cluster.Run("rbd", "create", name, "--size", fmt.Sprintf("%dB", i.size())); err != nil {
			return nil, "", err
		}
	}
	for at := range mostImages { // one at a time: each is a client with 30 threads
		if _, err := fio.Run(l.both(), i.once(names(mostImages)[at:][:1], bench.Write.String(), 1<<20, i.size())); err != nil {
			return nil, "", err
		}
	}
	return i, "", nil
}

// names returns the names of the first n images.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("rbd/bench%d", i))
	}
	return all
}

// size is the size of an image in bytes: a few objects of 4 MiB.
func (i *imageLab) size() int64 { return i.file / 16 }

// A stopper stops a cluster, and counts the processor time of its daemons.
type stopper struct {
	*ceph.Cluster
	lab *lab
}

func (s stopper) Close() error {
	var errs []error
	for _, d := range s.Daemons() {
		pid, err := s.PID(d)
		if err == nil {
			var used time.Duration
			used, err = process.CPUTime(pid)
			s.lab.daemons += used
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.Stop())...)
}

// once returns a job that passes once through the first size bytes of each image.
func (i *imageLab) once(images []string, pattern string, block int, size int64) fio.Job {
	return fio.Job{Images: images, Conf: i.cluster.Conf, Pattern: pattern, BlockSize: block, Depth: 8, Size: size, Once: true}
}

// store returns the processor time that the OSD has used.
func (i *imageLab) store() (time.Duration, error) {
	pid, err := i.cluster.PID("osd.0")
	if err != nil {
		return 0, err
	}
	return process.CPUTime(pid)
}

// timed runs a load, and computes the figures of a sample from the processor times before and after it. All processes
// are idle otherwise.
func (i *imageLab) timed(cpu func() (time.Duration, error), run func() (child.Sample, error)) (s child.Sample, err error) {
	var used, stored [2]time.Duration
	for n := range used {
		if n > 0 {
			if s, err = run(); err != nil {
				return s, err
			}
		}
		used[n], err = cpu()
		if err != nil {
			return s, err
		}
		if stored[n], err = i.store(); err != nil {
			return s, err
		}
	}
	lasted := (i.time + i.ramp()).Seconds()
	s.CPU, s.Store = (used[1]-used[0]).Seconds()/lasted, (stored[1]-stored[0]).Seconds()/lasted
	return s, nil
}

// fabric connects to a target that has the images for one load, and runs it.
func (i *imageLab) fabric(w imageLoad) (s child.Sample, err error) {
	before := i.closers
	i.closers = nil
	defer func() {
		err = errors.Join(err, i.clear())
		i.closers = before
	}()
	p, err := i.pair(pairSpec{
		shared: true, connect: true, images: names(w.images), conf: i.cluster.Conf, depth: min(256*w.images, 1024), data: w.images * w.depth * w.size,
	})
	if err != nil {
		return s, err
	}
	return i.timed(p.cpu, func() (child.Sample, error) {
		return p.run(child.LoadSpec{Namespace: child.Image, More: w.images - 1, Job: i.job(w.load)})
	})
}

// fio runs a load by fio's own engine. Its processor time does not include fio's start and end.
func (i *imageLab) fio(w imageLoad) (child.Sample, error) {
	if i.starts[w.images] == 0 {
		r, err := fio.Run(i.both(), i.once(names(w.images), bench.Read.String(), kib4, kib4))
		if err != nil {
			return child.Sample{}, err
		}
		i.starts[w.images] = r.Process
	}
	j := i.fioJob(w.load, i.size())
	j.Images, j.Conf = names(w.images), i.cluster.Conf
	used := i.starts[w.images]
	cpu := func() (time.Duration, error) { return used, nil }
	return i.timed(cpu, func() (child.Sample, error) {
		r, err := fio.Run(i.both(), j)
		used = max(used, r.Process)
		return child.Sample{IOPS: r.IOPS}, err
	})
}

// qemu runs a load of qemu-nbd, which serves an image meanwhile.
func (i *imageLab) qemu(w imageLoad) (s child.Sample, err error) {
	server, err := fio.QEMUImage(i.both(), i.path("qemu-nbd"), names(1)[0], i.cluster.Conf)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	j := i.fioJob(w.load, i.size())
	j.URI = server.URI()
	r, err := fio.Run(i.both(), j)
	return child.Sample{IOPS: r.IOPS}, err
}
