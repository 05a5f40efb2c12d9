// Package floor measures the cost of UDP itself on this machine, over loopback, without RDMA or NVMe: the round trip
// between two polling sockets, and the goodput of one flow with segmentation offload. Compared with that, the cost of a
// fabric can be separated from the kernel's.
//
// Both use two threads that do not sleep unless requested, so they need two otherwise idle processors.
package floor

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// yieldTurns is the number of unsuccessful turns after which a polling loop yields to the Go runtime.
const yieldTurns = 64

// RoundTrips are the percentiles of a RoundTrip measurement.
type RoundTrips struct {
	Count          int
	P50, P99, P999 time.Duration
}

func (r RoundTrips) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v", r.P50, r.P99, r.P999)
}

// ErrNoAnswer says that a datagram was lost, or that the other thread did not run for a second.
var ErrNoAnswer = errors.New("no answer over loopback within a second")

// Threads has functions that are called on the two threads of a measurement before it begins, for example to pin them
// to processors. The zero value does nothing.
type Threads struct {
	Active  func() error // on the thread that sends requests, or the flow
	Passive func() error // on the other thread

	// Pause is an idle time before each request of a round trip. The other side then sleeps in poll(2).
	Pause time.Duration
}

// enter locks the goroutine to its thread; leave undoes that.
func enter(prepare func() error) (leave func(), err error) {
	runtime.LockOSThread()
	if prepare != nil {
		err = prepare()
	}
	return runtime.UnlockOSThread, err
}

// RoundTrip is [Threads.RoundTrip] with the zero value.
func RoundTrip(a, b netip.Addr, n, request, response int) (RoundTrips, error) {
	return Threads{}.RoundTrip(a, b, n, request, response)
}

// RoundTrip sends n requests between two sockets at addresses of this machine, such as 127.0.0.1, each after the answer
// to the previous one. It measures the time of each until the answer has arrived. Sizes are bytes of UDP payload. Each
// side calls sendto once, and recvfrom repeatedly while it waits.
func (t Threads) RoundTrip(a, b netip.Addr, n, request, response int) (RoundTrips, error) {
	if n := max(request, response); n > maxDatagram {
		return RoundTrips{}, fmt.Errorf("a datagram cannot have %d bytes", n)
	}
	client, err := openSocket(a)
	if err != nil {
		return RoundTrips{}, err
	}
	defer client.close()
	server, err := openSocket(b)
	if err != nil {
		return RoundTrips{}, err
	}
	defer server.close()
	client.peer(server)
	server.peer(client)

	var stop atomic.Bool
	done := make(chan error)
	go func() { // ends when stop is set
		leave, err := enter(t.Passive)
		defer leave()
		for server.receive(stop.Load) {
			server.send(server.buf[:response])
			for t.Pause > 0 && !server.wait() && !stop.Load() {
			}
		}
		done <- err
	}()
	times, err := t.pingPong(client, n, request)
	stop.Store(true)
	if err = errors.Join(err, <-done); err != nil {
		return RoundTrips{}, err
	}
	return percentiles(times), nil
}

// pingPong measures on the client's side, after some requests to warm up.
func (t Threads) pingPong(client *socket, n, request int) ([]time.Duration, error) {
	leave, err := enter(t.Active)
	defer leave()
	if err != nil {
		return nil, err
	}
	var start time.Time
	late := func() bool { return time.Since(start) > time.Second }
	times := make([]time.Duration, 0, n)
	warmUp := 100
	if t.Pause > 0 {
		warmUp = 1
	}
	for i := range n + warmUp {
		time.Sleep(t.Pause)
		start = time.Now()
		if err := client.send(client.buf[:request]); err != nil {
			return nil, err
		}
		if !client.receive(late) {
			return nil, ErrNoAnswer
		}
		if i >= warmUp {
			times = append(times, time.Since(start))
		}
	}
	return times, nil
}

func percentiles(times []time.Duration) RoundTrips {
	if len(times) == 0 {
		return RoundTrips{}
	}
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[min(len(times)-1, int(share*float64(len(times))))]
	}
	return RoundTrips{len(times), at(0.50), at(0.99), at(0.999)}
}
