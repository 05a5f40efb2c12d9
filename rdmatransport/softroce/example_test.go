package softroce_test

import (
	"fmt"
	"log"
	"net/netip"
	"runtime"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// background calls f on another goroutine.
func background[T any](f func() (T, error)) <-chan T {
	done := make(chan T, 1)
	go func() { done <- must(f()) }()
	return done
}

// wait polls endpoints until there is a value: connections are made by polling, too.
func wait[T any](value <-chan T, es ...*endpoint) T {
	for {
		select {
		case v := <-value:
			return v
		default:
			for _, e := range es {
				if e.cq.Poll(make([]rdmatransport.Completion, 1)) != 0 {
					log.Panic("nothing was posted that could complete")
				}
				e.cq.Flush()
			}
			runtime.Gosched()
		}
	}
}

// completion polls endpoints until the first one has a completion.
func completion(first *endpoint, others ...*endpoint) rdmatransport.Completion {
	var c [1]rdmatransport.Completion
	for first.cq.Poll(c[:]) == 0 {
		first.cq.Flush()
		for _, e := range others {
			e.cq.Poll(make([]rdmatransport.Completion, 1))
			e.cq.Flush()
		}
		runtime.Gosched()
	}
	if c[0].Status != rdmatransport.StatusSuccess {
		log.Panic(c[0].Status)
	}
	return c[0]
}

// An address can be used by one device only.
func ExampleOpen() {
	addr := netip.MustParseAddr("127.80.2.3")
	device := must(softroce.Open(softroce.Config{Addr: addr}))
	defer device.Close()
	fmt.Println(device.Attrs().Provider, device.Addr(), device.Attrs().MaxReadsIn)
	_, err := softroce.Open(softroce.Config{Addr: addr})
	fmt.Println(err != nil)
	// Output:
	// softroce 127.80.2.3 128
	// true
}
