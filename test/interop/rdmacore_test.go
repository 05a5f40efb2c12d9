package interop

import (
	"fmt"
	"strings"
	"testing"
)

// coreTools are tools with other options than TestTools gives them: messages of
// one byte, of more than a window's worth of packets, and the longest of rping.
var coreTools = []tool{
	{"rping,smallest", "rping -s -a %A -C 10 -v", "rping -c -a %A -C 10 -v"},
	{"rping,longest", "rping -s -a %A -C 10 -S 65000 -V", "rping -c -a %A -C 10 -S 65000 -V"},
	{"rdma_client", "rdma_server -s %A -p 7472", "rdma_client -s %A -p 7472"},
	{"ib_send_bw,1", "ib_send_bw -R %D -F -s 1 -n 100", "ib_send_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_send_bw,1M", "ib_send_bw -R %D -F -s 1048576 -n 10", "ib_send_bw -R %D -F -s 1048576 -n 10 %A"},
	{"ib_write_bw,1", "ib_write_bw -R %D -F -s 1 -n 100", "ib_write_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_write_bw,1M", "ib_write_bw -R %D -F -s 1048576 -n 10", "ib_write_bw -R %D -F -s 1048576 -n 10 %A"},
	{"ib_read_bw,1", "ib_read_bw -R %D -F -s 1 -n 100", "ib_read_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_read_bw,1M", "ib_read_bw -R %D -F -s 1048576 -n 10", "ib_read_bw -R %D -F -s 1048576 -n 10 %A"},
	{"ib_atomic_bw,fetch-and-add", "ib_atomic_bw -R %D -F -A FETCH_AND_ADD -n 1000", "ib_atomic_bw -R %D -F -A FETCH_AND_ADD -n 1000 %A"},
	{"ib_atomic_bw,compare-and-swap", "ib_atomic_bw -R %D -F -A CMP_AND_SWAP -n 1000", "ib_atomic_bw -R %D -F -A CMP_AND_SWAP -n 1000 %A"},
}

// coreToolsIPv6 are those that can be told an IPv6 address as they are.
var coreToolsIPv6 = []tool{
	{"rping,ipv6", "rping -s -a %A -C 10 -v", "rping -c -a %A -C 10 -v"},
	{"rdma_client,ipv6", "rdma_server -s %A -p 7473", "rdma_client -s %A -p 7473"},
}

// TestRDMACore: rdma-core's and perftest's tools against softroce, in both
// directions, with the smallest and the largest messages, and over IPv6.
func TestRDMACore(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	l.installPeer(t)
	l.link(t, 1500)
	for _, tool := range coreTools {
		t.Run(tool.name+",host-serves", func(t *testing.T) { l.exercise(t, tool, hostEnd, peerEnd) })
		t.Run(tool.name+",peer-serves", func(t *testing.T) { l.exercise(t, tool, peerEnd, hostEnd) })
	}
	for _, tool := range coreToolsIPv6 {
		for server, addr := range map[end]string{hostEnd: "fd09::2", peerEnd: "fd09::1"} {
			here := tool
			here.server, here.client = strings.ReplaceAll(tool.server, "%A", addr), strings.ReplaceAll(tool.client, "%A", addr)
			t.Run(fmt.Sprintf("%s,at=%s", tool.name, addr), func(t *testing.T) { l.exercise(t, here, server, hostEnd+peerEnd-server) })
		}
	}
}
