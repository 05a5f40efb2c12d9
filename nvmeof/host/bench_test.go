package host

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// benchmarkRig is a target and a host in this process over real sockets.
func benchmarkRig(b *testing.B) (*Controller, *Namespace) {
	b.Helper()
	open := func(addr string) rdmatransport.Device {
		d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr)})
		if err != nil {
			b.Skipf("no sockets for softroce: %v", err)
		}
		return d
	}
	cfg := rigConfig{
		stores: []backend.Store{newStore(b, 64<<20, 4096)}, target: target.Config{Shards: 1}, host: Config{Shards: 1},
		spin: true,
	}
	r := startRig(b, cfg, open("127.79.0.1"), open("127.79.0.2"), netip.MustParseAddrPort("127.79.0.2:4420"))
	c := r.connect(r.options())
	return c, r.namespace(c)
}

func BenchmarkReadAt(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10} {
		b.Run(fmt.Sprint(size>>10, "K"), func(b *testing.B) {
			c, n := benchmarkRig(b)
			buffers, err := c.NewBuffers(size)
			if err != nil {
				b.Fatal(err)
			}
			p := buffers.Bytes()[:size]
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := n.ReadAt(p, int64(i*size)%(n.Size()-int64(size))&^4095); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, op := range []backend.Op{backend.OpRead, backend.OpWrite} {
		for _, c := range []struct{ size, depth int }{{4 << 10, 32}, {128 << 10, 16}} {
			name := fmt.Sprintf("%s %dK depth %d", map[backend.Op]string{backend.OpRead: "read", backend.OpWrite: "write"}[op], c.size>>10, c.depth)
			b.Run(name, func(b *testing.B) { benchmarkQueue(b, op, c.size, c.depth) })
		}
	}
}

func benchmarkQueue(b *testing.B, op backend.Op, size, depth int) {
	c, n := benchmarkRig(b)
	buffers, err := c.NewBuffers(size * depth)
	if err != nil {
		b.Fatal(err)
	}
	q, err := n.OpenQueue(depth, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	rs, results := make([]backend.Request, 0, depth), make([]backend.Result, depth)
	for i := range depth {
		rs = append(rs, backend.Request{Tag: uint64(i), Op: op, Length: int64(size), Buf: buffers.Bytes()[i*size:][:size]})
	}
	next := int64(0)
	batch := make([]backend.Request, 0, depth)
	add := func(tag uint64) {
		r := &rs[tag]
		r.Offset = next % (n.Size() - int64(size)) &^ 4095
		next += int64(size)
		batch = append(batch, *r)
	}
	for i := range depth {
		add(uint64(i))
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for done := 0; done < b.N; {
		q.Submit(batch)
		batch = batch[:0]
		for _, x := range results[:q.Poll(results)] {
			if x.Err != nil {
				b.Fatal(x.Err)
			}
			done++
			add(x.Tag)
		}
	}
}

// BenchmarkAfterIdle is a read after a pause, during which both loops have gone to sleep.
func BenchmarkAfterIdle(b *testing.B) {
	c, n := benchmarkRig(b)
	buffers, err := c.NewBuffers(4096)
	if err != nil {
		b.Fatal(err)
	}
	p := buffers.Bytes()[:4096]
	var took []time.Duration
	for b.Loop() {
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		if _, err := n.ReadAt(p, 0); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}
