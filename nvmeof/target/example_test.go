package target_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// read is a host: it reads n bytes of namespace 1 of a subsystem.
func read(target netip.Addr, nqn nvmeof.NQN, n int, off int64) []byte {
	device := must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.1.1")}))
	defer device.Close()
	h := must(host.New(host.Config{Device: device}))
	defer h.Close()
	ctx := context.Background()
	c := must(h.Connect(ctx, host.Options{Traddr: target, NQN: nqn}))
	b := make([]byte, n)
	must(must(c.Namespace(ctx, 1)).ReadAt(b, off))
	return b
}

// Namespaces come and go while hosts are connected.
func Example() {
	at := netip.MustParseAddrPort("127.80.1.2:4420")
	device := must(softroce.Open(softroce.Config{Addr: at.Addr()}))
	defer device.Close()
	stores := []backend.Store{must(memory.New(memory.Config{Size: 1 << 20})), must(memory.New(memory.Config{Size: 1 << 20}))}
	for _, store := range stores {
		defer store.Close() // after the target, as the device is
	}
	t := must(target.New(target.Config{Device: device}))
	defer t.Close()
	s := must(t.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2026-11.org.example:disk"}))
	s.AllowHost("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555")
	for _, store := range stores {
		must(s.AddNamespace(target.NamespaceConfig{Store: store}))
	}
	must(t.Listen(at))
	for _, n := range s.Namespaces() {
		fmt.Println("namespace", n.ID(), "of", n.Info().Size, "bytes")
	}
	fmt.Println(t.Listeners()[0].Addr())
	// Output:
	// namespace 1 of 1048576 bytes
	// namespace 2 of 1048576 bytes
	// 127.80.1.2:4420
}
