package bench_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A job that writes every block of a store once and reads all of them back.
func ExampleRun() {
	store := must(memory.New(memory.Config{Size: 1 << 20, BlockSize: 4096}))
	defer store.Close()
	job := bench.Job{Pattern: bench.RandWrite, BlockSize: 4096, Depth: 8, Runtime: time.Minute, Limit: 1 << 20, Seed: 1, Verify: true}
	r := must(bench.Run(context.Background(), store, make([]byte, job.Memory(store.Info())), job, nil))
	fmt.Println(r.Sides[bench.ToWrite].Bytes, "bytes written,", r.Verified, "blocks verified")
	// Output:
	// 1048576 bytes written, 256 blocks verified
}
