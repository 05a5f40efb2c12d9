package file_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/backend/file"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A missing file is created with its size.
func ExampleOpen() {
	dir := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "namespace.img")
	store := must(file.Open(path, file.Config{Size: 1 << 20, Engine: file.EngineThreads}))
	defer store.Close()
	info := store.Info()
	fmt.Println(info.Size, info.BlockSize, info.ReadOnly)
	_, err := file.Open(path, file.Config{})
	var locked *file.LockedError
	fmt.Println("opened again:", errors.As(err, &locked))
	// Output:
	// 1048576 4096 false
	// opened again: true
}
