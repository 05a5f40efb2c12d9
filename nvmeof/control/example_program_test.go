package control_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// parse parses a document. Its warnings are for administrators.
func parse(text string) *config.Document {
	doc, _, err := config.Parse("target.yaml", []byte(text))
	return must(doc, err)
}

// open opens the RDMA device of a listener.
func open(at netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
	return softroce.Open(softroce.Config{Addr: at})
}

// A complete program: a target from a document, and a client that adds a namespace with the API.
func Example_program() {
	doc := parse(`
version: 1
listeners: [{id: 1, address: 127.80.3.1}]
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 1MiB}}]
`)
	m := control.New(control.Config{Target: must(target.New(target.Config{})), Device: open, Settings: doc})
	defer m.Close()
	must(m.Apply(doc, control.Options{}))
	dir := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "target.sock")
	server := control.Serve(m, must(control.Listen(socket)))
	defer server.Close()

	client := control.NewClient(socket)
	defer client.Close()
	ctx := context.Background()
	namespaces := control.Path("subsystems", "nqn.2026-11.org.example:disk", "namespaces")
	var result control.Result
	if err := client.Do(ctx, "POST", namespaces, nil, []byte(`{"nsid": 2, "memory": {"size": "2MiB"}}`), &result); err != nil {
		log.Panic(err)
	}
	fmt.Println(result.Changes[0].Text)
	var status control.Status
	if err := client.Do(ctx, "GET", control.Path("status"), nil, nil, &status); err != nil {
		log.Panic(err)
	}
	for _, n := range status.Served {
		fmt.Println("namespace", n.NSID, "of", n.Size, "bytes")
	}
	// Output:
	// add namespace 2 of nqn.2026-11.org.example:disk
	// namespace 1 of 1048576 bytes
	// namespace 2 of 2097152 bytes
}
