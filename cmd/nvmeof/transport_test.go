package main

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestAckTimeout: what the file says reaches the device, and nonsense on a command line is
// refused where it is written.
func TestAckTimeout(t *testing.T) {
	var got providerConfig
	f := &configFlags{device: func(_ string, _ netip.Addr, cfg providerConfig) (rdmatransport.Device, error) {
		got = cfg
		return nil, nil
	}}
	doc := &config.Document{}
	doc.Limits.AckTimeout, doc.Limits.Shards = config.Duration(30*time.Millisecond), 3
	if _, err := newOpener(f, doc, zap.NewNop()).open(netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	if got.ackTimeout != 30*time.Millisecond || got.shards != 3 {
		t.Errorf("the device is opened with %+v", got)
	}
	command(t, "target", "--listen", "127.0.0.1", "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--ack-timeout", "-1s").want(t, exitUsage, "--ack-timeout", "-1s")
	command(t, "discover", "-a", "127.0.0.1", "--ack-timeout", "soon").want(t, exitUsage, "--ack-timeout", "soon")
}
