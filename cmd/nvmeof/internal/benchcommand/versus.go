package benchcommand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rawudp"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A contender is what the fabric is compared with.
type contender struct {
	name    string
	measure func(context.Context, *measurement) (figures, error)
	found   []figures // of each round
	fabric  []figures // of the fabric in the same rounds
}

// figures are the values that are compared; zero if a contender does not have one.
type figures struct {
	iops     float64
	rate     float64 // bytes per second
	p50, p99 time.Duration
}

func figuresOf(r *bench.Result) figures {
	all := r.Latencies()
	return figures{r.IOPS(), r.Throughput(), all.Percentile(50), all.Percentile(99)}
}

// contenders returns the contenders of --vs.
func (l *load) contenders(j bench.Job) (all []*contender, err error) {
	for _, s := range l.versus {
		kind, what, has := strings.Cut(s, "=")
		var c *contender
		switch {
		case kind == "udp" && !has:
			c, err = l.versusUDP(j)
		case kind == "local" && has:
			c, err = l.versusLocal(what)
		case kind == "local":
			err = failure.Usagef("--vs local needs the store, on this machine: local=mem:1GiB, or local=FILE")
		default:
			err = failure.Usagef("--vs %s: want udp, or local=EXPORT with EXPORT as in nvmeof target --export, for example local=mem:1GiB", s)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) > 0 && (l.nsids == "all" || strings.Contains(l.nsids, ",")) {
		return nil, failure.Usagef("--vs compares a single namespace, but --namespace-id %s gives several", l.nsids)
	}
	return all, nil
}

// versusLocal runs the same jobs on a store in this process. The store is opened for each measurement, so that one in
// memory is empty each time.
func (l *load) versusLocal(what string) (*contender, error) {
	open, err := l.program.ParseStore(what)
	if err != nil {
		return nil, failure.Usagef("--vs local: %v", err)
	}
	return &contender{name: "local " + what, measure: func(ctx context.Context, m *measurement) (f figures, err error) {
		store, err := open()
		if err != nil {
			return f, fmt.Errorf("--vs local: %w", err)
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		return m.local(ctx, store)
	}}, nil
}

func (m *measurement) local(ctx context.Context, store backend.Store) (f figures, err error) {
	each := m.job.Memory(store.Info())
	memory, err := unix.Mmap(-1, 0, each*m.load.numjobs, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return f, fmt.Errorf("map memory: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory)) }()
	results, err := bench.RunAll(ctx, clones(store, m.job, m.load.numjobs, each, memory), nil)
	if err != nil {
		return f, fmt.Errorf("--vs local: %w", err)
	}
	return figuresOf(bench.Merge(results)), nil
}

// maxDatagram is the maximum data of one round trip of raw UDP, without overhead.
const maxDatagram = 60 << 10

// versusUDP measures round trips of datagrams of the same size if one request is in flight at a time, and otherwise
// one flow of packets.
func (l *load) versusUDP(j bench.Job) (*contender, error) {
	traddr := l.fabric.Where().Traddr
	if strings.Contains(traddr, ",") {
		return nil, failure.Usagef("--vs udp compares a single address, but --traddr %s gives several", traddr)
	}
	addr, err := l.fabric.Addr()
	if err != nil {
		return nil, err
	}
	switch {
	case !isOurs(addr.Addr()):
		return nil, failure.Usagef("--vs udp measures over loopback, but %v is another machine: they cannot be compared", addr.Addr())
	case j.Pattern.Mixed() || j.Pattern.Does(bench.ToTrim):
		return nil, failure.Usagef("--vs udp compares reads or writes, not %v", j.Pattern)
	case j.MaxSize() != j.BlockSize || j.MaxBlock != j.BlockSize:
		return nil, failure.Usagef("--vs udp compares requests of one size: use --bs instead of --bsrange or --bssplit")
	}
	runtime := j.Runtime
	if runtime == 0 {
		runtime = time.Second
	}
	if l.iodepth*l.numjobs == 1 && j.BlockSize <= maxDatagram {
		there, back := datagrams(j)
		return &contender{name: fmt.Sprintf("raw UDP, %d B there, %d B back", there, back),
			measure: func(context.Context, *measurement) (figures, error) {
				t, err := rawudp.RoundTrip(runtime, there, back)
				return figures{iops: 1 / max(t.P50.Seconds(), 1e-9), p50: t.P50, p99: t.P99}, err
			}}, nil
	}
	packet := min(j.BlockSize, 4096) + rawudp.PacketOverhead
	return &contender{name: fmt.Sprintf("raw UDP, one flow of %d B with GSO", packet),
		measure: func(context.Context, *measurement) (figures, error) {
			g, err := rawudp.Goodput(runtime, packet)
			return figures{rate: g}, err
		}}, nil
}

// datagrams returns the bytes of a request as one datagram in each direction.
func datagrams(j bench.Job) (there, back int) {
	if j.Pattern.Writes() {
		return rawudp.CommandPacket + j.BlockSize, rawudp.ShortResponse
	}
	return rawudp.CommandPacket, j.BlockSize + rawudp.ReadOverhead
}

// isOurs reports whether an address belongs to this machine.
func isOurs(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	addrs, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(addrs, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().WithZone("") == a.Unmap().WithZone("")
	})
}

// compare measures the fabric and the contenders in turn, so that other load on the machine affects all of them. It
// reports the round with the median IOPS.
func (m *measurement) compare(ctx context.Context, tasks []bench.Task) error {
	var rounds [][]*bench.Result
	for i := range m.load.rounds {
		label := fmt.Sprintf("%v, round %d of %d", m.job.Pattern, i+1, m.load.rounds)
		results, err := bench.RunAll(ctx, tasks, terminal.Line(m.cmd.ErrOrStderr(), label))
		if err != nil {
			return err
		}
		rounds = append(rounds, results)
		for _, c := range m.versus {
			f, err := c.measure(ctx, m)
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			c.found = append(c.found, f)
			c.fabric = append(c.fabric, figuresOf(bench.Merge(results)))
		}
	}
	slices.SortFunc(rounds, func(a, b []*bench.Result) int {
		return int(bench.Merge(a).IOPS() - bench.Merge(b).IOPS())
	})
	m.results = rounds[len(rounds)/2]
	return nil
}

// A ratio compares the fabric with a contender: the median of the ratios of the rounds.
type ratio struct {
	Name string  `json:"name"`
	IOPS float64 `json:"iops,omitempty"`
	Rate float64 `json:"bw_bytes,omitempty"`
	P50  int64   `json:"p50_ns,omitempty"`
	P99  int64   `json:"p99_ns,omitempty"`

	IOPSRatio float64 `json:"iops_ratio,omitempty"` // above 1: the fabric is faster
	RateRatio float64 `json:"bw_ratio,omitempty"`
	P50Ratio  float64 `json:"p50_ratio,omitempty"` // above 1: the fabric is slower
	Rounds    int     `json:"rounds"`
}

func (c *contender) ratio() ratio {
	get := func(of func(figures) float64) (value, ratio float64) {
		var values, ratios []float64
		for i := range c.found {
			v := of(c.found[i])
			if v == 0 {
				return 0, 0
			}
			values, ratios = append(values, v), append(ratios, of(c.fabric[i])/v)
		}
		return rawudp.Median(values), rawudp.Median(ratios)
	}
	r := ratio{Name: c.name, Rounds: len(c.found)}
	r.IOPS, r.IOPSRatio = get(func(f figures) float64 { return f.iops })
	r.Rate, r.RateRatio = get(func(f figures) float64 { return f.rate })
	p50, p50Ratio := get(func(f figures) float64 { return float64(f.p50) })
	p99, _ := get(func(f figures) float64 { return float64(f.p99) })
	r.P50, r.P99, r.P50Ratio = int64(p50), int64(p99), p50Ratio
	return r
}
