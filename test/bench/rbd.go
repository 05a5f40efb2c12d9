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

// An imageLoad is one of so many images at the same time. All contenders use the same ones, one after the
// other: each has their exclusive locks.
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

// mostImages is how many there are.
const mostImages = 64

// images compares images of Ceph behind the fabric with fio's rbd engine on the very images, and with
// qemu-nbd serving one. The cluster, a monitor and an OSD, has the same processors.
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

// perOperation is processor time in microseconds.
func perOperation(s child.Sample) float64 { return s.CPU / s.IOPS * 1e6 }

func storePerOperation(s child.Sample) float64 { return s.Store / s.IOPS * 1e6 }

// An imageLab is a cluster with images.
type imageLab struct {
	*lab
	cluster *ceph.Cluster
	starts  map[int]time.Duration // of processors, that fio takes to start and end with so many images
}

// newImages starts a cluster, and creates images and writes all of them, or says what is missing for that.
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
	for at := range mostImages { // many at once are many clients, of 30 threads each
		if _, err := fio.Run(l.both(), i.once(names(mostImages)[at:][:1], bench.Write.String(), 1<<20, i.size())); err != nil {
			return nil, "", err
		}
	}
	return i, "", nil
}

// names are the first n images.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("rbd/bench%d", i))
	}
	return all
}

// size is the length of an image in bytes: some objects of 4 MiB.
func (i *imageLab) size() int64 { return i.file / 16 }

// A stopper ends a cluster, and counts what its daemons have used.
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

// once is a job that passes through the beginning of images.
func (i *imageLab) once(images []string, pattern string, block int, size int64) fio.Job {
	return fio.Job{Images: images, Conf: i.cluster.Conf, Pattern: pattern, BlockSize: block, Depth: 8, Size: size, Once: true}
}

// store is what the OSD has used.
func (i *imageLab) store() (time.Duration, error) {
	pid, err := i.cluster.PID("osd.0")
	if err != nil {
		return 0, err
	}
	return process.CPUTime(pid)
}

// timed makes the figures of a sample from what was used of processors from before a load to its end: nobody
// has anything to do outside of it.
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

// fabric connects to a target that has the images for one load.
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

// fio is a load by its own engine, without the processor time that it takes to start and end.
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

// qemu is a load of qemu-nbd, which serves an image meanwhile.
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
