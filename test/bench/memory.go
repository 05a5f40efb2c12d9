package main

import (
	"maps"
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/internal/floor"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/fio"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

const (
	kib4   = 4 << 10
	kib128 = 128 << 10
)

var shown = report.Goal{}

// Sizes in bytes of UDP payload. A command's capsule (64 bytes) and each part of a message has a BTH and an ICRC, an
// RDMA WRITE also a RETH, a response that invalidates a key also an IETH (IBTA 9.2, 9.3). With data in it a capsule is
// a message of two packets.
const (
	bth, reth, ieth, icrc = 12, 16, 4, 4

	readCommand   = 64 + bth + icrc
	readResponse  = 4096 + bth + reth + icrc + 16 + bth + ieth + icrc
	writeCommand  = 4096 + bth + icrc + 64 + bth + icrc
	writeResponse = 16 + bth + icrc
	flowPacket    = 4096 + bth + icrc
)

// raw returns a probe of the raw round trip, from the host's processor.
func (l *lab) raw(request, response int) func() (child.Sample, error) {
	return l.rawFirst(request, response, child.FirstSpec{})
}

// rawFirst returns the same probe with pauses.
func (l *lab) rawFirst(request, response int, first child.FirstSpec) func() (child.Sample, error) {
	spec := child.FloorSpec{
		Addr: l.addr(), Peer: l.addr(), Active: l.hosts[0], Passive: l.targets[0],
		Runtime: l.time, Request: request, Response: response, First: first,
	}
	return func() (s child.Sample, err error) {
		err = l.floor.Call("RoundTrip", spec, &s)
		return s, err
	}
}

// latency compares single requests with raw round trips. In both the data is in the same few bytes over and over.
func (l *lab) latency(g *group) error {
	p, err := l.pair(pairSpec{connect: true})
	if err != nil {
		return err
	}
	read := load{bench.RandRead, kib4, 1, floor.Region}
	write := load{bench.RandWrite, kib4, 1, floor.Region}
	g.probe("raw read", l.raw(readCommand, readResponse))
	g.probe("read", p.load(child.Memory, read))
	g.probe("raw write", l.raw(writeCommand, writeResponse))
	g.probe("write", p.load(child.Memory, write))

	g.ratio("memory "+read.name()+" p50 / raw round trip", atMost(2.0, 1.5), p50, "read", "raw read")
	g.ratio("memory "+write.name()+" p50 / raw round trip", atMost(2.2, 1.6), p50, "write", "raw write")
	g.ratio("memory "+read.name()+" p99.9 / raw p99.9", atMost(3, 1.5), p999, "read", "raw read")
	g.ratio("memory "+write.name()+" p99.9 / raw p99.9", atMost(3, 1.5), p999, "write", "raw write")
	for _, n := range []string{"raw read", "read", "raw write", "write"} {
		g.plain("  "+n+" p50", "us", shown, p50, n)
		g.plain("  "+n+" p99.9", "us", shown, p999, n)
	}
	return nil
}

// rate measures requests per second of memory, and of nbdkit's memory.
func (l *lab) rate(g *group) error {
	p, err := l.pair(pairSpec{connect: true})
	if err != nil {
		return err
	}
	pulled, err := l.pair(pairSpec{connect: true, inCapsule: -1})
	if err != nil {
		return err
	}
	one, r32, r128 := load{bench.RandRead, kib4, 1, 0}, load{bench.RandRead, kib4, 32, 0}, load{bench.RandRead, kib4, 128, 0}
	w32, w128 := load{bench.RandWrite, kib4, 32, 0}, load{bench.RandWrite, kib4, 128, 0}
	g.probe("read 1", p.load(child.Memory, one))
	l.nbdkit(g, "nbdkit 1", one, "nbdkit 32", r32, func() {
		g.probe("read 32", p.load(child.Memory, r32))
	})
	g.probe("read 128", p.load(child.Memory, r128))
	g.probe("write 32 in capsule", p.load(child.Memory, w32))
	g.probe("write 32 RDMA READ", pulled.load(child.Memory, w32))
	g.probe("write 128 in capsule", p.load(child.Memory, w128))
	g.probe("write 128 RDMA READ", pulled.load(child.Memory, w128))
	l.local(g, r32)
	rateCells(g)
	return nil
}

func rateCells(g *group) {
	const unit = "IOPS"
	g.plain("memory 4 KiB randread QD32", unit, atLeast(400e3, 740e3), iops, "read 32")
	g.plain("memory 4 KiB randread QD128", unit, atLeast(450e3, 750e3), iops, "read 128")
	g.better("memory 4 KiB randwrite QD32, the better of", unit, atLeast(330e3, 600e3), iops, "write 32 in capsule", "write 32 RDMA READ")
	g.plain("  in capsule", unit, shown, iops, "write 32 in capsule")
	g.plain("  by RDMA READ", unit, shown, iops, "write 32 RDMA READ")
	g.better("memory 4 KiB randwrite QD128, the better of", unit, atLeast(380e3, 650e3), iops, "write 128 in capsule", "write 128 RDMA READ")
	g.plain("  in capsule, QD128", unit, shown, iops, "write 128 in capsule")
	g.plain("  by RDMA READ, QD128", unit, shown, iops, "write 128 RDMA READ")
	g.ratio("memory 4 KiB randread QD1 / nbdkit", atLeast(2, 3), iops, "read 1", "nbdkit 1")
	g.ratio("memory 4 KiB randread QD32 / nbdkit", atLeast(2.2, 4), iops, "read 32", "nbdkit 32")
	g.ratio("  per CPU-second, both ends / nbdkit", atLeast(1.3, 2.5), perCPU, "read 32", "nbdkit 32")
	g.plain("  per CPU-second", "IOPS", shown, perCPU, "read 32")
	g.plain("  nbdkit per CPU-second", "IOPS", shown, perCPU, "nbdkit 32")
	g.plain("memory called locally, 4 KiB randread QD32", unit, shown, iops, "local")
}

// nbdkit adds two probes of nbdkit's memory, and between them the probe that between adds.
func (l *lab) nbdkit(g *group, first string, a load, second string, b load, between func()) {
	reason := fio.Missing("nbd")
	var server *fio.Server
	if reason == "" {
		var err error
		if server, err = fio.NBDKit(l.target(), l.path("nbdkit"), l.memory); err != nil {
			reason = firstLine(err)
		}
	}
	if reason != "" {
		between()
		g.without(reason, first, second)
		return
	}
	l.later(server)
	g.probe(first, l.fio(a, "", server, l.memory))
	between()
	g.probe(second, l.fio(b, "", server, l.memory))
}

// local adds a probe of a store in memory without a fabric.
func (l *lab) local(g *group, w load) {
	g.probe("local", func() (s child.Sample, err error) {
		err = l.floor.Call("Local", child.LocalSpec{Memory: l.memory, Job: l.job(w)}, &s)
		return s, err
	})
}

// goodput compares long transfers with a raw flow.
func (l *lab) goodput(g *group) error {
	p, err := l.pair(pairSpec{connect: true})
	if err != nil {
		return err
	}
	flow := child.FloorSpec{
		Addr: l.addr(), Peer: l.addr(), Active: l.targets[0], Passive: l.hosts[0], Runtime: l.time, Packet: flowPacket,
	}
	read, write := load{bench.Read, kib128, 16, floor.Region}, load{bench.Write, kib128, 16, floor.Region}
	g.probe("read", p.load(child.Memory, read))
	g.probe("raw", func() (s child.Sample, err error) {
		err = l.floor.Call("Goodput", flow, &s)
		return s, err
	})
	g.probe("write", p.load(child.Memory, write))
	g.probe("memcpy", func() (s child.Sample, err error) {
		err = l.floor.Call("Copy", child.CopySpec{Runtime: l.time, Size: kib128}, &s)
		return s, err
	})
	g.ratio("memory "+read.name()+" / raw GSO+GRO goodput", atLeast(0.7, 0.95), bytes, "read", "raw")
	g.ratio("memory "+write.name()+" / raw GSO+GRO goodput", atLeast(0.6, 0.9), bytes, "write", "raw")
	for _, n := range []string{"read", "write", "raw", "memcpy"} {
		g.plain("  "+n+", 128 KiB", "GB/s", shown, func(s child.Sample) float64 { return s.Throughput / 1e9 }, n)
	}
	return nil
}

// metrics compares targets and hosts whose metrics are read each second with those that count nothing. It also compares
// a target whose packets are captured with one whose are not.
func (l *lab) metrics(g *group) error {
	pairs := map[string]*pair{}
	for name, spec := range map[string]pairSpec{
		"counted": {scraped: true}, "not counted": {unmeasured: true}, "captured": {unmeasured: true, captured: true},
		"counted by the host": {unmeasured: true, paths: true, hostScraped: true}, "not by the host": {unmeasured: true, paths: true, hostUnseen: true},
	} {
		spec.connect = true
		var err error
		if pairs[name], err = l.pair(spec); err != nil {
			return err
		}
	}
	for _, w := range []load{{bench.RandRead, kib4, 32, 0}, {bench.RandWrite, kib4, 32, 0}} {
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			g.probe(w.name()+" "+name, pairs[name].load(child.Memory, w))
		}
		on := func(name string) string { return w.name() + " " + name }
		g.ratio("memory "+w.name()+", commands counted and scraped / not", atLeast(0.99, 1), iops, on("counted"), on("not counted"))
		g.ratio("host "+w.name()+", requests counted and scraped / not", atLeast(0.99, 1), iops, on("counted by the host"), on("not by the host"))
		g.ratio("memory "+w.name()+", packets captured / not", shown, iops, on("captured"), on("not counted"))
	}
	return nil
}

// alone measures a host whose packets are neither segmented nor merged.
func (l *lab) alone(g *group) error {
	p, err := l.pair(pairSpec{connect: true, alone: true})
	if err != nil {
		return err
	}
	for _, w := range []load{
		{bench.RandRead, kib4, 1, floor.Region}, {bench.RandWrite, kib4, 1, floor.Region},
	} {
		g.probe(w.name(), p.load(child.Memory, w))
		g.plain("no GSO/GRO at the host: "+w.name()+" p50", "us", shown, p50, w.name())
	}
	for _, w := range []load{
		{bench.RandRead, kib4, 32, 0}, {bench.RandRead, kib4, 128, 0}, {bench.RandWrite, kib4, 32, 0}, {bench.RandWrite, kib4, 128, 0},
		{bench.Read, kib128, 16, floor.Region}, {bench.Write, kib128, 16, floor.Region},
	} {
		g.probe(w.name(), p.load(child.Memory, w))
		g.plain("no GSO/GRO at the host: "+w.name(), "IOPS", shown, iops, w.name())
	}
	return nil
}
