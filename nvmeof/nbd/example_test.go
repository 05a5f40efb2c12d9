package nbd_test

import (
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A server exports disks, which can be replaced while clients are connected.
func ExampleListen() {
	dir := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	store := must(memory.New(memory.Config{Size: 1 << 20}))
	defer store.Close()
	disk := nbd.Disk{Name: "1", Description: "a disk in memory", Store: store}
	server := must(nbd.Listen(nbd.Config{Socket: filepath.Join(dir, "disk.sock")}, disk))
	defer server.Close()
	uri := must(url.Parse(server.URI(disk)))
	fmt.Println(uri.Scheme, uri.Path, filepath.Base(uri.Query().Get("socket")))
	// Output:
	// nbd+unix /1 disk.sock
}
