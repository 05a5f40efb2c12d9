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

// stored adds to a sample what the OSD uses.
func (i *imageLab) stored(run func() (child.Sample, error)) (s child.Sample, err error) {
	used, err := busy(i.store, func() (err error) {
		s, err = run()
		return err
	})
	s.Store = used
	return s, err
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
	return i.stored(p.load(child.Image, w))
}

// fio is a load by its own engine. What it takes to start, in which the OSD has nothing to do, does not count.
func (i *imageLab) fio(w load) (child.Sample, error) {
	j := i.fioJob(w, i.file)
	j.Image, j.Conf = image, i.cluster.Conf
	before, err := i.store()
	if err != nil {
		return child.Sample{}, err
	}
	r, err := fio.Run(i.both(), j)
	if err != nil {
		return child.Sample{}, err
	}
	after, err := i.store()
	lasted := (i.time + i.ramp()).Seconds()
	return child.Sample{IOPS: r.IOPS, CPU: max(0, r.Process-i.starts).Seconds() / lasted, Store: (after - before).Seconds() / lasted}, err
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
