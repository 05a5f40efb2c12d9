package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const diskNQN = "nqn.2014-08.org.example:disk"

// A bench is a target with one disk of 1 MiB in memory, and a host, both in this process, on two addresses of the
// loopback interface.
type bench struct {
	host   *host.Host
	target *target.Target
	disk   *target.Subsystem
	at     host.Options // how to connect to the disk
	close  func()
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

func newBench() *bench {
	targetAddr := netip.MustParseAddrPort("127.80.0.2:4420")
	hostDevice := must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.0.1"), Shards: 1}))
	targetDevice := must(softroce.Open(softroce.Config{Addr: targetAddr.Addr(), Shards: 1}))
	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 4096}))

	t := must(target.New(target.Config{Device: targetDevice}))
	disk := must(t.AddSubsystem(target.SubsystemConfig{NQN: diskNQN}))
	disk.AllowAnyHost(true)
	must(disk.AddNamespace(target.NamespaceConfig{Store: store}))
	must(t.Listen(targetAddr))

	h := must(host.New(host.Config{Device: hostDevice}))
	return &bench{
		host: h, target: t, disk: disk,
		at: host.Options{Traddr: targetAddr.Addr(), NQN: diskNQN},
		close: func() {
			if err := errors.Join(h.Close(), t.Close(), hostDevice.Close(), targetDevice.Close(), store.Close()); err != nil {
				log.Panic(err)
			}
		},
	}
}

// open connects to the disk and opens its namespace.
func (b *bench) open(ctx context.Context) *host.Namespace {
	c := must(b.host.Connect(ctx, b.at))
	return must(c.Namespace(ctx, 1))
}

// Connecting takes an RDMA device, which softroce provides on an ordinary UDP socket, and the address and NQN of a
// subsystem.
func Example() {
	target := newBench()
	defer target.close()
	device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.0.3")})
	if err != nil {
		log.Panic(err)
	}
	defer device.Close()
	h, err := host.New(host.Config{Device: device})
	if err != nil {
		log.Panic(err)
	}
	defer h.Close()

	ctx := context.Background()
	c, err := h.Connect(ctx, host.Options{Traddr: netip.MustParseAddr("127.80.0.2"), NQN: diskNQN, NrIOQueues: 2})
	if err != nil {
		log.Panic(err)
	}
	defer c.Disconnect(ctx)
	ids, err := c.Namespaces(ctx)
	if err != nil {
		log.Panic(err)
	}
	for _, id := range ids {
		n, err := c.Namespace(ctx, id)
		if err != nil {
			log.Panic(err)
		}
		fmt.Printf("namespace %d: %d bytes in blocks of %d\n", n.ID(), n.Size(), n.BlockSize())
	}
	// Output:
	// namespace 1: 1048576 bytes in blocks of 4096
}

// The error of a refused connection says which side refused it, and why.
func ExampleConnectError() {
	b := newBench()
	defer b.close()
	o := b.at
	o.NQN = "nqn.2014-08.org.example:another"
	_, err := b.host.Connect(context.Background(), o)
	var refused *host.ConnectError
	if errors.As(err, &refused) {
		fmt.Println(refused.RefusedBy() == host.SideTarget)
		fmt.Println(err)
	}
	// Output:
	// true
	// 127.80.0.2:4420: connecting queue 0: the target refuses this host: Connect: connect invalid parameters, or write to read only range (1/82, DNR): the controller rejects the subsystem's name: no such subsystem here
}

// The error of a command that the controller fails has its status.
func ExampleStatusError() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	c := must(b.host.Connect(ctx, b.at))
	_, err := c.Namespace(ctx, 7)
	fmt.Println(errors.Is(err, host.ErrRemoved))
	_, err = c.Features().Get(ctx, capsule.GetFeatures{FID: 0xc0}, 0, nil)
	var refused *host.StatusError
	if errors.As(err, &refused) {
		fmt.Println(refused.Command, refused.Status.Code() == capsule.StatusInvalidField, refused.Status.DNR())
	}
	// Output:
	// true
	// Get Features true true
}

// A controller's log pages, features and properties are accessed through Logs, Features and Properties.
func ExampleController_Logs() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	c := must(b.host.Connect(ctx, b.at))
	health := must(c.Logs().SMART(ctx, capsule.NSIDBroadcast))
	fmt.Println("critical warnings:", health.CriticalWarning)
	fmt.Println("keep alive:", must(c.Features().KeepAliveTimeout(ctx)))
	status := must(c.Properties().Get(ctx, capsule.PropertyCSTS))
	fmt.Println("ready:", capsule.CSTS(status).Ready())
	// Output:
	// critical warnings: 0
	// keep alive: 5s
	// ready: true
}

// A namespace is an io.ReaderAt for any offset and length, and an io.WriterAt for whole blocks.
func ExampleNamespace_ReadAt() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	n := b.open(ctx)

	block := make([]byte, n.BlockSize())
	copy(block, "NVMe over Fabrics")
	if _, err := n.WriteAt(block, 8192); err != nil {
		log.Panic(err)
	}
	if err := n.Flush(); err != nil { // durable from here on
		log.Panic(err)
	}
	word := make([]byte, 7)
	if _, err := n.ReadAt(word, 8192+10); err != nil {
		log.Panic(err)
	}
	fmt.Printf("%s\n", word)
	_, err := n.WriteAt([]byte("half a block"), 0)
	fmt.Println(errors.Is(err, host.ErrUnaligned))
	// Output:
	// Fabrics
	// true
}

// A Queue takes requests in slices and returns their results in any order, without allocating. Data in memory of the
// controller's Buffers is not copied.
func ExampleQueue() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	c := must(b.host.Connect(ctx, b.at))
	n := must(c.Namespace(ctx, 1))
	mem := must(c.NewBuffers(64 << 10)).Bytes()
	q := must(n.OpenQueue(16, nil))
	defer q.Close()

	requests := make([]backend.Request, 16)
	for i := range requests {
		at := i * 4096
		mem[at] = byte(i)
		requests[i] = backend.Request{
			Tag: uint64(i), Op: backend.OpWrite, Offset: int64(at), Length: 4096, Buf: mem[at : at+4096],
		}
	}
	results := make([]backend.Result, len(requests))
	for left, rest := len(requests), requests; left > 0; {
		rest = rest[q.Submit(rest):]
		if err := q.Wait(); err != nil {
			log.Panic(err)
		}
		for _, r := range results[:q.Poll(results)] {
			if r.Err != nil {
				log.Panicf("request %d: %v", r.Tag, r.Err)
			}
			left--
		}
	}
	last := make([]byte, 1)
	must(n.ReadAt(last, 15*4096))
	fmt.Println(last[0])
	// Output:
	// 15
}

func ExampleHost_Discover() {
	b := newBench()
	defer b.close()
	found, err := b.host.Discover(context.Background(), host.Options{Traddr: b.at.Traddr})
	if err != nil {
		log.Panic(err)
	}
	for i := range found.Entries {
		e := &found.Entries[i]
		if e.SUBTYPE == capsule.SubsystemNVM {
			fmt.Println(nvmeof.Printable(e.SubNQN.String()), capsule.Text(e.TRADDR[:]), capsule.Text(e.TRSVCID[:]))
		}
	}
	// Output:
	// nqn.2014-08.org.example:disk 127.80.0.2 4420
}

// A lock that hosts acquire with CompareAndWrite: the host that finds it free gets it.
func ExampleNamespace_CompareAndWrite() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	n := b.open(ctx)

	free, mine := make([]byte, 4096), make([]byte, 4096)
	copy(mine, "held by A")
	fmt.Println("A:", n.CompareAndWrite(ctx, 0, free, mine))
	copy(mine, "held by B")
	err := n.CompareAndWrite(ctx, 0, free, mine)
	fmt.Println("B:", errors.Is(err, backend.ErrMiscompare))
	must(n.ReadAt(mine[:9], 0))
	fmt.Printf("%s\n", mine[:9])
	// Output:
	// A: <nil>
	// B: true
	// held by A
}

// Two hosts share a disk; only the one that holds the reservation may write.
func ExampleReservations() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	first := b.open(ctx)
	b.at.HostNQN, b.at.HostID = "nqn.2014-08.org.example:second", capsule.HostID{2}
	second := b.open(ctx)

	const key = 0x1234
	if err := first.Reservations().Register(ctx, key, host.RegisterOptions{}); err != nil {
		log.Panic(err)
	}
	if err := first.Reservations().Acquire(ctx, key, capsule.ReservationWriteExclusive); err != nil {
		log.Panic(err)
	}
	block := make([]byte, 4096)
	_, err := second.WriteAt(block, 0)
	fmt.Println("second writes:", errors.Is(err, host.ErrReserved))
	_, err = first.WriteAt(block, 0)
	fmt.Println("first writes:", err)
	report := must(second.Reservations().Report(ctx))
	fmt.Println("registrants:", len(report.Registrants), "second holds:", report.Holds(b.at.HostID))
	if err := first.Reservations().Release(ctx, key, capsule.ReservationWriteExclusive); err != nil {
		log.Panic(err)
	}
	_, err = second.WriteAt(block, 0)
	fmt.Println("second writes:", err)
	// Output:
	// second writes: true
	// first writes: <nil>
	// registrants: 1 second holds: false
	// second writes: <nil>
}

// Events are received on a channel; reading the log page of an event re-arms it.
func ExampleKindOf() {
	b := newBench()
	defer b.close()
	ctx := context.Background()
	events := make(chan capsule.AsyncEvent)
	b.at.Events = events
	c := must(b.host.Connect(ctx, b.at))

	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 512}))
	defer store.Close()
	must(b.disk.AddNamespace(target.NamespaceConfig{Store: store}))

	e := <-events
	fmt.Println(host.KindOf(e))
	changed := make([]byte, capsule.NamespaceListSize)
	if err := c.Logs().Read(ctx, capsule.NSIDBroadcast, capsule.GetLogPage{LID: e.LID}, changed); err != nil {
		log.Panic(err)
	}
	fmt.Println("namespace", capsule.NSIDAt(changed, 0))
	// Output:
	// namespaces changed
	// namespace 2
}

// A context bounds how long an operation takes: when it ends, the commands are aborted, and nothing accesses the buffer
// after that.
func ExampleNamespace_ReadAtContext() {
	b := newBench()
	defer b.close()
	n := b.open(context.Background())
	if err := b.disk.Namespaces()[0].Pause(0); err != nil { // the target holds all commands
		log.Panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := n.ReadAtContext(ctx, make([]byte, 4096), 0)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	if err := b.disk.Namespaces()[0].Resume(); err != nil {
		log.Panic(err)
	}
	// Output:
	// true
}
