package target_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// numbers is a store of 1 TiB without storage: each block begins with its number.
type numbers struct{}

func (numbers) Info() backend.Info {
	return backend.Info{Size: 1 << 40, BlockSize: 4096, Alignment: 1, ReadOnly: true}
}
func (numbers) Allocated() (int64, error) { return 0, nil }
func (numbers) Close() error              { return nil }
func (n numbers) NewQueue(depth int, _ func()) (backend.Queue, error) {
	return &queue{n.Info(), depth, backend.NewResults(depth)}, nil
}

type queue struct {
	info    backend.Info
	depth   int
	results backend.Results
}

func (q *queue) Submit(rs []backend.Request) int {
	rs = rs[:min(len(rs), q.depth-q.results.Len())]
	for _, r := range rs {
		err := q.info.Check(&r)
		for at := 0; err == nil && at < len(r.Buf); at += 4096 {
			clear(r.Buf[at:][:4096])
			binary.BigEndian.PutUint64(r.Buf[at:], uint64(r.Offset+int64(at))/4096)
		}
		q.results.Push(backend.Result{Tag: r.Tag, Err: err})
	}
	return len(rs)
}
func (q *queue) Poll(rs []backend.Result) int { return q.results.Drain(rs) }
func (q *queue) Idle() bool                   { return q.results.Len() == 0 }
func (q *queue) Close() error                 { return nil }

// A complete program: a target with a store of its own, which must panics without.
func Example_program() {
	at := netip.MustParseAddrPort("127.80.1.2:4420")
	device := must(softroce.Open(softroce.Config{Addr: at.Addr()}))
	defer device.Close()
	t := must(target.New(target.Config{Device: device}))
	defer t.Close()
	s := must(t.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2026-11.org.example:numbers"}))
	s.AllowAnyHost(true)
	must(s.AddNamespace(target.NamespaceConfig{Store: numbers{}}))
	must(t.Listen(at))
	fmt.Printf("%x\n", read(at.Addr(), "nqn.2026-11.org.example:numbers", 8, 0x123456*4096))
	// Output: 0000000000123456
}
