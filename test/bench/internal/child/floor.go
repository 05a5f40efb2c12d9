package child

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/internal/floor"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

// FloorSpec says between which addresses, and on which processors, the floor is measured: what the machine itself
// allows.
type FloorSpec struct {
	Addr, Peer        netip.Addr
	Active, Passive   int // processors
	Runtime           time.Duration
	Request, Response int // bytes of UDP payload, of a round trip
	Packet            int // bytes of UDP payload, of a flow

	First FirstSpec // round trips with pauses between them, if Times is not zero
}

func (s *FloorSpec) threads() floor.Threads {
	needProcessors(2)
	return floor.Threads{
		Active:  func() error { return process.PinThread(s.Active) },
		Passive: func() error { return process.PinThread(s.Passive) },
		Pause:   s.First.Pause,
	}
}

// Floor is the service of [RoleFloor].
type Floor struct{ closers }

// aSecond is about how many round trips take a second.
const aSecond = 100_000

// RoundTrip runs [floor.RoundTrip].
func (f *Floor) RoundTrip(spec FloorSpec, s *Sample) error {
	n := max(100, int(aSecond*spec.Runtime.Seconds()))
	if spec.First.Times > 0 {
		n = spec.First.Times
	}
	r, err := spec.threads().RoundTrip(spec.Addr, spec.Peer, n, spec.Request, spec.Response)
	*s = Sample{P50: r.P50, P99: r.P99, P999: r.P999}
	return err
}

// Goodput runs [floor.Goodput].
func (f *Floor) Goodput(spec FloorSpec, s *Sample) (err error) {
	s.Throughput, err = spec.threads().Goodput(spec.Addr, spec.Peer, spec.Runtime, spec.Packet)
	return err
}

// CopySpec says for how long memory is copied, and in pieces of how many bytes.
type CopySpec struct {
	Runtime time.Duration
	Size    int
}

// Copy copies within memory that is larger than the inner caches.
func (f *Floor) Copy(spec CopySpec, s *Sample) error {
	from, to := make([]byte, floor.Region), make([]byte, floor.Region)
	start, bytes := time.Now(), 0
	for at := 0; time.Since(start) < spec.Runtime; at = (at + spec.Size) % (floor.Region - spec.Size) {
		bytes += copy(to[at:][:spec.Size], from[at:][:spec.Size])
	}
	s.Throughput = float64(bytes) / time.Since(start).Seconds()
	return nil
}

// LocalSpec is a load of a store without a fabric: Memory bytes of memory.
type LocalSpec struct {
	Memory int64
	Job    bench.Job
}

// Local loads a store from within its own process.
func (f *Floor) Local(spec LocalSpec, s *Sample) (err error) {
	needProcessors(1)
	job := spec.Job
	data, err := unix.Mmap(-1, 0, job.Depth*job.BlockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(data)) }()
	store, err := memory.New(memory.Config{Size: spec.Memory})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	fill(store.Memory())
	r, err := bench.Run(context.Background(), store, data, job, nil)
	if err == nil {
		*s = sum([]*bench.Result{r})
	}
	return err
}
