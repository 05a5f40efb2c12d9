package softroce

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// FuzzMoved: whatever the states of a device and a queue pair contain, they are refused, or the resulting device can
// be driven and closed.
func FuzzMoved(f *testing.F) {
	const peer = `"local":"10.0.0.1:4420","remote":"10.0.0.2:40000","tos":2,"lane":0,"rc":{"peer":{"qpn":34,"path-mtu":1024,"pkey":65535}}}`
	f.Add([]byte(`{"provider":"softroce","version":2,"address":"10.0.0.1","sockets":{"transmit":4,"overflow":[0]},"manager":{"guid":1,"psn":2,`+
		`"connections":[{"id":5,"remote-id":6,"peer":"10.0.0.2","qpn":33,"peer-qpn":34},{"id":7,"remote-id":8,"peer":"10.0.0.2","qpn":35,"peer-qpn":36,"disconnecting":true}]},`+
		`"packets":[{"shard":0,"from":"10.0.0.2:50000","id":-1,"data":"BAAA//8AACEAAAABAAAAAA=="}]}`), []byte(`{"version":2,"qpn":33,"id":5,`+peer))
	f.Add([]byte(`{}`), []byte(`{"version":2,"qpn":33,"id":0,`+peer))
	f.Fuzz(func(t *testing.T, device, queue []byte) {
		n := udp.NewNetwork(1)
		n.Manual = true
		cfg := Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n}
		old, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := old.Move(); err != nil {
			t.Fatal(err)
		}
		cfg.Moved = &rdmatransport.Moved{State: device}
		d, err := Open(cfg)
		if err != nil {
			return
		}
		dom, err := d.NewDomain()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
		if err != nil {
			t.Fatal(err)
		}
		qp, err := dom.(rdmatransport.AdoptingDomain).Adopt(rdmatransport.QPConfig{CQ: cq}, queue)
		if err == nil {
			qp.PostRecv([]rdmatransport.RecvWR{{}}) //nolint:errcheck // there is room
		}
		d.Begin()
		for range 3 {
			turn(d)
		}
		if err == nil {
			qp.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend}}) //nolint:errcheck // it may have ended
			turn(d)
			qp.Close()
		}
		turn(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
