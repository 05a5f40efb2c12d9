package rdmatools

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// inMemory opens devices of an in-memory network.
type inMemory struct {
	Devices
	n *softroce.Network
}

func (d *inMemory) Here(_ context.Context, own string, _ io.Writer) (rdmatransport.Device, netip.Addr, error) {
	addr := netip.MustParseAddr(own)
	dev, err := softroce.Open(softroce.Config{Addr: addr, Shards: 1, Network: d.n})
	return dev, addr, err
}

func (d *inMemory) Towards(_ netip.Addr, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error) {
	return d.Here(context.Background(), own, say)
}

// TestPingOfAnotherKind checks that data of a client that is not that of a ping does not reach the terminal unchanged.
func TestPingOfAnotherKind(t *testing.T) {
	n := softroce.NewNetwork(1)
	server := netip.MustParseAddr("192.0.2.1")
	var out strings.Builder
	p := &pinger{session: session{Devices: &inMemory{n: n}, own: server.String(), port: pingPort, events: true}, verbose: true, out: &out}
	listening, say := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- p.serve(t.Context(), say, p.answerAll) }() // ends with the client
	if _, err := listening.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	client := session{Devices: p.Devices, own: "192.0.2.2", port: pingPort, events: true}
	err := client.client(t.Context(), io.Discard, server, func(e *endpoint) error {
		c, err := e.dial(call{to: netip.AddrPortFrom(server, pingPort), reads: 1}, pingDepths)
		if err != nil {
			return err
		}
		defer c.close()
		mr, err := e.dom.Register([]byte("rdma-ping-0: \x1b]0;owned\a\x1b[2J\u202e"+strings.Repeat("A", 64)), rdmatransport.AccessRemoteRead)
		if err != nil {
			return err
		}
		if err := c.send(advertisement{mr.IOVA(), mr.RKey(), uint32(len(mr.Bytes()))}.encode()); err != nil {
			return err
		}
		_, _ = c.receive() // the server disconnects
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the server does not end")
	}
	if err == nil || !strings.Contains(err.Error(), `it begins with "rdma-ping-0: \x1b]0;owned`) {
		t.Errorf("error %v", err)
	}
	if text := out.String() + err.Error(); strings.ContainsAny(text, "\x1b\a\u202e") {
		t.Errorf("printed %q", text)
	}
}
