package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// TestAckTimeout checks that an invalid value is rejected on the command line.
func TestAckTimeout(t *testing.T) {
	command(t, "target", "--listen", "127.0.0.1", "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--ack-timeout", "-1s").want(t, exitUsage, "--ack-timeout", "-1s")
	command(t, "discover", "-a", "127.0.0.1", "--ack-timeout", "soon").want(t, exitUsage, "--ack-timeout", "soon")
}

// TestCongestion checks that invalid values are rejected on the command line, and that two peers may differ.
func TestCongestion(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"target --listen 127.0.0.1 --nqn a --export mem:1MiB --allow-any-host", "discover -a 127.0.0.1", "attach -a 127.0.0.1", "bench -a 127.0.0.1",
		"connect -t rdma -a 127.0.0.1 -n a", "rdma write-bw 127.0.0.1"} {
		command(t, append(strings.Fields(line), "--congestion", "min-rat=8Mbit")...).want(t, exitUsage, "unknown field min-rat; did you mean min-rate?")
	}
	addr := loopbackAddress()
	server, client := converse(t, "hello --congestion no-ecn,ignore --host-traddr "+addr, "hello --congestion min-rate=1Mbit "+addr)
	server.want(t, 0)
	client.want(t, 0)
}

// TestTransportOfListener checks that each listener uses its own transport, or the document's if it has none, and that
// a change of the transport restarts the listener.
func TestTransportOfListener(t *testing.T) {
	addrs := []string{loopbackAddress(), loopbackAddress(), loopbackAddress()}
	opened := make(chan string, 1000)
	out := newOutput()
	f := &targetcommand.Daemon{Socket: filepath.Join(t.TempDir(), "socket"), Log: zap.NewNop(), Out: out, ErrOut: out}
	device := func(transport string, a netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
		opened <- transport + " at " + a.String()
		if transport == provider.Verbs {
			return nil, &verbs.NoDeviceError{}
		}
		return provider.Open(transport, a, cfg)
	}
	text := fmt.Sprintf("version: 1\ntransport: verbs\nlimits: {shards: 1}\nlisteners:\n- {id: 1, address: %s, transport: softroce}\n- {id: 2, address: %s}\n- {id: 3, address: %s, transport: auto}\n", addrs[0], addrs[1], addrs[2])
	var err error
	if f.Document, _, err = config.Parse("f", []byte(text)); err != nil {
		t.Fatal(err)
	}
	startDaemon(t, f, targetcommand.Machine{Device: device})
	out.await(t, "controlled at")
	for _, want := range []string{"softroce at " + addrs[0], "verbs at " + addrs[1], "softroce at " + addrs[2]} {
		if got := <-opened; got != want {
			t.Errorf("opened %s, want %s", got, want)
		}
	}
	command(t, "ls", "--socket", f.Socket).want(t, 0, addrs[0]+":4420 (softroce)\n", addrs[1]+":4420, WAITING: ", addrs[2]+":4420 (auto)\n")
	command(t, "listener", "set", "1", "--transport", "verbs", "--socket", f.Socket).want(t, exitFailed, "no RDMA device")
	command(t, "listener", "set", "2", "--transport", "softroce", "--socket", f.Socket).want(t, 0, "is added again with another transport")
	command(t, "ls", "--socket", f.Socket).want(t, 0, addrs[0]+":4420 (softroce)\n", addrs[1]+":4420 (softroce)\n")
}
