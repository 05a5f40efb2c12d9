package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestOurTarget: our own target supports every command.
func TestOurTarget(t *testing.T) {
	const nqn = "nqn.2014-08.org.example:disk"
	addr := netip.MustParseAddrPort("127.81.0.2:4420")
	device, err := softroce.Open(softroce.Config{Addr: addr.Addr(), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	store, err := memory.New(memory.Config{Size: 16 << 20, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	x, err := target.New(target.Config{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	s, err := x.AddSubsystem(target.SubsystemConfig{NQN: nqn})
	if err != nil {
		t.Fatal(err)
	}
	s.AllowAnyHost(true)
	if _, err := s.AddNamespace(target.NamespaceConfig{Store: store}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Listen(addr); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run("softroce", "127.81.0.1", addr.Addr().String(), nqn, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if n := strings.Count(out.String(), ": ok\n"); n != len(checks) {
		t.Errorf("%d of %d checks are ok:\n%s", n, len(checks), &out)
	}
}
