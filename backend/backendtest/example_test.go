package backendtest_test

import (
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A store that fails when the test requests it: here on the second write.
func ExampleFaulty() {
	store := backendtest.NewFaulty(must(memory.New(memory.Config{Size: 1 << 20})))
	defer store.Close()
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Skip: 1, Count: 1, Err: backend.ErrNoSpace})
	queue := must(store.NewQueue(1, nil))
	defer queue.Close()
	results := make([]backend.Result, 1)
	for i := range 3 {
		queue.Submit([]backend.Request{{Tag: uint64(i), Op: backend.OpWrite, Length: 4096, Buf: make([]byte, 4096)}})
		for queue.Poll(results) == 0 {
		}
		fmt.Println("write", results[0].Tag, results[0].Err)
	}
	fmt.Println(fault.Hits(), "fault")
	// Output:
	// write 0 <nil>
	// write 1 no space left for the store
	// write 2 <nil>
	// 1 fault
}
