package memory_test

import (
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// Writing a block and reading it back: a queue takes requests and is polled for results.
func Example() {
	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 4096}))
	defer store.Close()
	queue := must(store.NewQueue(8, nil))
	defer queue.Close()
	block, back := make([]byte, 4096), make([]byte, 4096)
	copy(block, "in memory")
	for _, r := range []backend.Request{
		{Op: backend.OpWrite, Offset: 8192, Length: 4096, Buf: block},
		{Op: backend.OpRead, Offset: 8192, Length: 4096, Buf: back},
	} {
		queue.Submit([]backend.Request{r})
		results := make([]backend.Result, 1)
		for queue.Poll(results) == 0 {
		}
		fmt.Println(r.Op, results[0].Err)
	}
	fmt.Printf("%s, %d of %d bytes in use\n", back[:9], must(store.Allocated()), store.Info().Size)
	// Output:
	// write <nil>
	// read <nil>
	// in memory, 4096 of 1048576 bytes in use
}
