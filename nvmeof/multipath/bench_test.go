package multipath

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// BenchmarkQueue is the benchmark of package host over a path.
func BenchmarkQueue(b *testing.B) {
	const depth, size = 32, 4096
	s, n := benchmarkRig(b)
	buffers, err := s.NewBuffers(size * depth)
	if err != nil {
		b.Fatal(err)
	}
	q, err := n.OpenQueue(depth, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	var batch []backend.Request
	for i := range depth {
		batch = append(batch, backend.Request{Tag: uint64(i), Op: backend.OpRead, Length: size, Buf: buffers.Bytes()[i*size:][:size]})
	}
	rs, results := append([]backend.Request(nil), batch...), make([]backend.Result, depth)
	b.SetBytes(size)
	b.ReportAllocs()
	for done := 0; done < b.N; {
		q.Submit(batch)
		batch = batch[:0]
		for _, x := range results[:q.Poll(results)] {
			if x.Err != nil {
				b.Fatal(x.Err)
			}
			done++
			rs[x.Tag].Offset = int64(done*size) % (n.Size() - size) &^ (size - 1)
			batch = append(batch, rs[x.Tag])
		}
	}
}

func benchmarkRig(b *testing.B) (*Subsystem, *Namespace) {
	store, err := memory.New(memory.Config{Size: 64 << 20, BlockSize: 4096})
	if err != nil {
		b.Fatal(err)
	}
	open := func(addr string) *softroce.Device {
		d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr)})
		if err != nil {
			b.Skipf("no sockets for softroce: %v", err)
		}
		return d
	}
	near, far := open("127.79.0.1"), open("127.79.0.2")
	tgt, err := target.New(target.Config{Device: far})
	if err != nil {
		b.Fatal(err)
	}
	sub, err := tgt.AddSubsystem(target.SubsystemConfig{NQN: testNQN})
	if err != nil {
		b.Fatal(err)
	}
	sub.AllowAnyHost(true)
	if _, err := sub.AddNamespace(target.NamespaceConfig{Store: store}); err != nil {
		b.Fatal(err)
	}
	at := netip.MustParseAddrPort("127.79.0.2:4420")
	if _, err := tgt.Listen(at); err != nil {
		b.Fatal(err)
	}
	h, err := host.New(host.Config{Device: near, Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Connect(b.Context(), Config{NQN: testNQN, Paths: []PathConfig{{Host: h, Options: host.Options{Traddr: at.Addr()}}}})
	if err != nil {
		b.Fatal(err)
	}
	n, err := s.Namespace(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, c := range []interface{ Close() error }{s, h, tgt, near, far, store} {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return s, n
}
