package multipath_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const diskNQN = "nqn.2014-08.org.example:disk"

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// export exports a store at an address, as the only namespace of a subsystem.
func export(addr netip.Addr, store backend.Store) (stop func() error) {
	device := must(softroce.Open(softroce.Config{Addr: addr, Shards: 1}))
	t := must(target.New(target.Config{Device: device}))
	disk := must(t.AddSubsystem(target.SubsystemConfig{NQN: diskNQN}))
	disk.AllowAnyHost(true)
	must(disk.AddNamespace(target.NamespaceConfig{Store: store, NSID: 1, UUID: uuid.UUID{1}}))
	must(t.Listen(netip.AddrPortFrom(addr, 4420)))
	return func() error { return errors.Join(t.Close(), device.Close()) }
}

// Two targets export one disk. When one of them ends, the other serves the requests, and the program notices nothing.
func Example() {
	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 4096}))
	defer store.Close()
	addrs := []netip.Addr{netip.MustParseAddr("127.82.0.2"), netip.MustParseAddr("127.82.0.3")}
	stopFirst, stopSecond := export(addrs[0], store), export(addrs[1], store)
	defer stopSecond()
	device := must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.82.0.1"), Shards: 1}))
	defer device.Close()
	h := must(host.New(host.Config{Device: device}))
	defer h.Close()

	ctx := context.Background()
	cfg := multipath.Config{NQN: diskNQN}
	for _, addr := range addrs {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: h, Options: host.Options{Traddr: addr}})
	}
	subsystem := must(multipath.Connect(ctx, cfg))
	defer subsystem.Close()
	n := must(subsystem.Namespace(ctx, 1))

	block := make([]byte, n.BlockSize())
	copy(block, "one disk, two paths")
	must(n.WriteAtContext(ctx, block, 0))
	if err := errors.Join(n.FlushContext(ctx), stopFirst()); err != nil {
		log.Panic(err)
	}
	text := make([]byte, 19)
	must(n.ReadAtContext(ctx, text, 0))
	fmt.Printf("%s: the second is %v\n", text, subsystem.Paths()[1].Status().State)
	// Output:
	// one disk, two paths: the second is live
}

// A request fails when no path is left, with the errors of all paths.
func ExampleNoPathError() {
	device := must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.82.0.4"), Shards: 1}))
	defer device.Close()
	h := must(host.New(host.Config{Device: device}))
	defer h.Close()
	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 4096}))
	defer store.Close()
	addr := netip.MustParseAddr("127.82.0.5")
	stop := export(addr, store)
	defer stop()

	ctx := context.Background()
	subsystem := must(multipath.Connect(ctx, multipath.Config{
		NQN: diskNQN, Paths: []multipath.PathConfig{{Host: h, Options: host.Options{Traddr: addr}}},
	}))
	defer subsystem.Close()
	n := must(subsystem.Namespace(ctx, 1))
	for _, p := range subsystem.Paths() {
		p.Delete()
	}
	_, err := n.ReadAt(make([]byte, 4096), 0)
	var none *multipath.NoPathError
	fmt.Println(errors.As(err, &none))
	// Output:
	// true
}
