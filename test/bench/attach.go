package main

import (
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/fio"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// both returns one processor of the servers and one of the clients, for processes that share both.
func (l *lab) both() process.Cores { return process.Cores{l.targets[0], l.hosts[0]} }

// attach compares a namespace of our target that our host publishes by NBD with nbdkit's memory: fio drives both. Our
// side has three processes for two processors, so all processes, nbdkit too, may use both.
func (l *lab) attach(g *group) error {
	loads := []load{{bench.RandRead, kib4, 1, 0}, {bench.RandWrite, kib4, 1, 0}, {bench.RandRead, kib4, 32, 0}, {bench.RandWrite, kib4, 32, 0}}
	if reason := fio.Missing("nbd"); reason != "" {
		l.attachCells(g, loads)
		for _, w := range loads {
			g.without(reason, w.name(), "nbdkit "+w.name())
		}
		return nil
	}
	p, err := l.pair(pairSpec{shared: true, connect: true})
	if err != nil {
		return err
	}
	socket := l.path("attach")
	if err := p.host.Call("Attach", child.AttachSpec{Namespace: child.Memory, Socket: socket}, &child.None{}); err != nil {
		return err
	}
	server, err := fio.NBDKit(l.both(), l.path("nbdkit"), l.memory)
	reason := ""
	if err != nil {
		reason = firstLine(err)
	} else {
		l.later(server)
		if err := l.fill(server); err != nil {
			return err
		}
	}
	for _, w := range loads {
		g.probe(w.name(), l.shared(w, fio.URI(socket)))
		if reason != "" {
			g.without(reason, "nbdkit "+w.name())
			continue
		}
		g.probe("nbdkit "+w.name(), l.shared(w, server.URI()))
	}
	l.attachCells(g, loads)
	return nil
}

func (l *lab) attachCells(g *group, loads []load) {
	for _, w := range loads {
		g.ratio("attach "+w.name()+" / nbdkit", atLeast(0.8, 1), iops, w.name(), "nbdkit "+w.name())
		g.plain("  attach "+w.name(), "IOPS", shown, iops, w.name())
		g.plain("  nbdkit "+w.name(), "IOPS", shown, iops, "nbdkit "+w.name())
	}
}

// fill writes all of nbdkit's memory, as that of our target is written: otherwise the first write to each page costs
// more.
func (l *lab) fill(server *fio.Server) error {
	j := l.fioJob(load{pattern: bench.Write, size: kib128, depth: 4}, l.memory)
	j.URI, j.Once = server.URI(), true
	_, err := fio.Run(l.both(), j)
	return err
}

// shared returns a probe with fio of a server, on the shared processors.
func (l *lab) shared(w load, uri string) func() (child.Sample, error) {
	j := l.fioJob(w, l.memory)
	j.URI = uri
	return func() (child.Sample, error) {
		r, err := fio.Run(l.both(), j)
		return child.Sample{IOPS: r.IOPS, CPU: r.CPU}, err
	}
}
