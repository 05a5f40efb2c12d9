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

// image is that which all contenders use, one after the other: each has its exclusive lock.
const image = "rbd/bench"

// images compares an image of Ceph behind the fabric with fio's rbd engine on the very image, and with
// qemu-nbd serving it. The cluster, a monitor and an OSD, has the same processors.
func (l *lab) images(g *group) error {
	loads := []load{{bench.RandRead, kib4, 32, 0}, {bench.RandWrite, kib4, 32, 0}}
	i, missing, err := l.newImage()
	if err != nil {
		return err
	}
	for _, w := range loads {
		ours, local, remote := w.name(), "fio "+w.name(), "qemu-nbd "+w.name()
		if missing != "" {
			g.without(missing, ours, local, remote)
		} else {
			g.probe(ours, func() (child.Sample, error) { return i.fabric(w) })
			g.probe(local, func() (child.Sample, error) { return i.fio(w) })
			g.probe(remote, func() (child.Sample, error) { return i.qemu(w) })
		}
		g.ratio("rbd "+ours+" / fio rbd", atLeast(0.9, 1), iops, ours, local)
		g.ratio("rbd "+ours+" / qemu-nbd", atLeast(1, 1.2), iops, ours, remote)
		g.plain("  rbd "+ours, "IOPS", shown, iops, ours)
		g.plain("  target and host", "us/op", shown, perOperation, ours)
		g.plain("  fio", "us/op", shown, perOperation, local)
		g.plain("  the OSD, behind the target", "us/op", shown, storePerOperation, ours)
		g.plain("  the OSD, behind fio", "us/op", shown, storePerOperation, local)
	}
	return nil
}

// perOperation is processor time in microseconds.
func perOperation(s child.Sample) float64 { return s.CPU / s.IOPS * 1e6 }

func storePerOperation(s child.Sample) float64 { return s.Store / s.IOPS * 1e6 }

// An imageLab is a cluster with the image.
type imageLab struct {
	*lab
	cluster *ceph.Cluster
	starts  time.Duration // of processors, that fio takes to start and end
}

// newImage starts a cluster, and creates the image and writes all of it, or says what is missing for that.
func (l *lab) newImage() (i *imageLab, missing string, err error) {
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
	i = &imageLab{lab: l}
	if i.cluster, err = ceph.Start(l.path("ceph"), l.addr().String()+":13300", 1); err != nil {
		return nil, "", err
	}
	l.later(stopper{i.cluster})
	if _, err := i.cluster.Run("rbd", "create", image, "--size", fmt.Sprintf("%dB", l.file)); err != nil {
		return nil, "", err
	}
	if _, err := fio.Run(l.both(), i.once(bench.Write.String(), 1<<20, l.file)); err != nil {
		return nil, "", err
	}
	r, err := fio.Run(l.both(), i.once(bench.Read.String(), kib4, kib4))
	i.starts = r.Process
	return i, "", err
}

type stopper struct{ *ceph.Cluster }

func (s stopper) Close() error { return s.Stop() }

// once is a job that passes through the beginning of the image.
func (i *imageLab) once(pattern string, block int, size int64) fio.Job {
	return fio.Job{Image: image, Conf: i.cluster.Conf, Pattern: pattern, BlockSize: block, Depth: 8, Size: size, Once: true}
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

// fabric connects to a target that has the image for one load.
func (i *imageLab) fabric(w load) (s child.Sample, err error) {
	before := i.closers
	i.closers = nil
	defer func() {
		err = errors.Join(err, i.clear())
		i.closers = before
	}()
	p, err := i.pair(pairSpec{shared: true, connect: true, image: image, conf: i.cluster.Conf})
	if err != nil {
		return s, err
	}
	return i.timed(p.cpu, p.load(child.Image, w))
}

// fio is a load by its own engine, without the processor time that it takes to start and end.
func (i *imageLab) fio(w load) (child.Sample, error) {
	j := i.fioJob(w, i.file)
	j.Image, j.Conf = image, i.cluster.Conf
	used := i.starts
	cpu := func() (time.Duration, error) { return used, nil }
	return i.timed(cpu, func() (child.Sample, error) {
		r, err := fio.Run(i.both(), j)
		used = max(used, r.Process)
		return child.Sample{IOPS: r.IOPS}, err
	})
}

// qemu is a load of qemu-nbd, which serves the image meanwhile.
func (i *imageLab) qemu(w load) (s child.Sample, err error) {
	server, err := fio.QEMUImage(i.both(), i.path("qemu-nbd"), image, i.cluster.Conf)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	j := i.fioJob(w, i.file)
	j.URI = server.URI()
	r, err := fio.Run(i.both(), j)
	return child.Sample{IOPS: r.IOPS}, err
}
