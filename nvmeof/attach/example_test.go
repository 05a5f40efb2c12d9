package attach_test

import (
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/attach"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A front end sees a namespace as a disk: a name, a text for people and a store.
func ExampleDisk() {
	store := must(memory.New(memory.Config{Size: 1 << 20}))
	defer store.Close()
	d := attach.Disk{Name: "1", Description: "a disk in memory", Store: store}
	fmt.Println(d.Name, d.Description, d.Store.Info().Size, d.NewMemory == nil)
	// Output:
	// 1 a disk in memory 1048576 true
}
