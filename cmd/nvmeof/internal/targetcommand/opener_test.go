package targetcommand

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestOpenerAckTimeout checks that the document's value reaches the device.
func TestOpenerAckTimeout(t *testing.T) {
	var got provider.Config
	device := func(_ string, _ netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
		got = cfg
		return nil, nil
	}
	doc := &config.Document{}
	doc.Limits.AckTimeout, doc.Limits.Shards = config.Duration(30*time.Millisecond), 3
	if _, err := newOpener(device, doc, zap.NewNop(), func() bool { return false }).open(netip.MustParseAddr("127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if got.AckTimeout != 30*time.Millisecond || got.Shards != 3 {
		t.Errorf("the device is opened with %+v", got)
	}
}

// TestOpenerCongestion checks that the document's values reach softroce.
func TestOpenerCongestion(t *testing.T) {
	var got provider.Config
	device := func(_ string, _ netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
		got = cfg
		return nil, nil
	}
	doc, _, err := config.Parse("f", []byte("version: 1\ncongestion: {no-ecn: true, min-rate: 8Mbit}\nlisteners: [{id: 1, address: 127.0.0.1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newOpener(device, doc, zap.NewNop(), func() bool { return false }).open(netip.MustParseAddr("127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if !got.Congestion.NoECN || got.Congestion.MinRate != 8e6 {
		t.Errorf("the device is opened with %+v", got.Congestion)
	}
}

// TestVerbsWhenConfined checks that a listener on verbs cannot be added to a target whose files are confined, since
// the kernel would accept no command of its device.
func TestVerbsWhenConfined(t *testing.T) {
	device := func(name string, _ netip.Addr, _ provider.Config) (rdmatransport.Device, error) {
		t.Errorf("a device of %s was opened", name)
		return nil, errors.ErrUnsupported
	}
	o := newOpener(device, &config.Document{}, zap.NewNop(), func() bool { return true })
	if _, err := o.open(netip.MustParseAddr("127.0.0.1"), provider.Verbs); !errors.Is(err, errRDMA) {
		t.Errorf("%v, want %v", err, errRDMA)
	}
}
