package softroce_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// An endpoint is a device with 4 KiB of memory and a queue pair.
type endpoint struct {
	device *softroce.Device
	cq     rdmatransport.CompletionQueue
	memory rdmatransport.MemoryRegion
	qp     rdmatransport.QueuePair
}

func open(addr string) *endpoint {
	e := &endpoint{device: must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr)}))}
	e.cq = must(e.device.NewCompletionQueue(rdmatransport.CQConfig{}))
	domain := must(e.device.NewDomain())
	e.memory = must(domain.Register(make([]byte, 4096), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteRead))
	e.qp = must(domain.NewQueuePair(rdmatransport.QPConfig{CQ: e.cq}))
	return e
}

func (e *endpoint) part(off, n int) []rdmatransport.SGE {
	return []rdmatransport.SGE{{Buf: e.memory.Bytes()[off:][:n], LKey: e.memory.LKey()}}
}

// A complete program: a client SENDs the address and key of its memory, and a server reads that memory by RDMA READ.
func Example_program() {
	server, client, at := open("127.80.2.1"), open("127.80.2.2"), netip.MustParseAddrPort("127.80.2.1:7471")
	listener := wait(background(func() (rdmatransport.Listener, error) { return server.device.Listen(at) }), server)
	copy(client.memory.Bytes()[64:], "memory of the client")
	binary.BigEndian.PutUint64(client.memory.Bytes(), client.memory.IOVA()+64)
	binary.BigEndian.PutUint32(client.memory.Bytes()[8:], uint32(client.memory.RKey()))
	must(0, server.qp.PostRecv([]rdmatransport.RecvWR{{SGL: server.part(0, 12)}}))
	connected := background(func() (rdmatransport.ConnReply, error) {
		return client.device.Connect(context.Background(), client.qp, at, rdmatransport.ConnParams{ResponderResources: 1, RetryCount: 7})
	})
	request := wait(background(func() (rdmatransport.ConnRequest, error) { return listener.Accept(context.Background()) }), server, client)
	must(0, request.Accept(server.qp, rdmatransport.ConnParams{InitiatorDepth: 1}))
	wait(connected, server, client)
	must(0, client.qp.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend, SGL: client.part(0, 12)}}))
	fmt.Println("the server received", completion(server, client).Bytes, "bytes")
	offer := server.memory.Bytes()
	must(0, server.qp.PostSend([]rdmatransport.SendWR{{
		Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: server.part(64, 20),
		RemoteAddr: binary.BigEndian.Uint64(offer), RKey: rdmatransport.RKey(binary.BigEndian.Uint32(offer[8:]))}}))
	fmt.Printf("and read %d: %q\n", completion(server, client).Bytes, offer[64:84])
	must(0, client.device.Close())
	must(0, server.device.Close())
	// Output:
	// the server received 12 bytes
	// and read 20: "memory of the client"
}
