package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A tool is a program of rdma-core or perftest that runs at both ends; %A is the
// server's address, %D says which device (perftest needs that of rxe).
type tool struct {
	name   string
	server string
	client string
}

var tools = []tool{
	{"rping", "rping -s -a %A -C 20 -S 1000 -V -v", "rping -c -a %A -C 20 -S 1000 -V -v"},
	{"rdma_client", "rdma_server -s %A -p 7471", "rdma_client -s %A -p 7471"},
	{"ib_send_bw", "ib_send_bw -R %D -F -s 10000 -n 200", "ib_send_bw -R %D -F -s 10000 -n 200 %A"},
	{"ib_write_bw", "ib_write_bw -R %D -F -s 10000 -n 200", "ib_write_bw -R %D -F -s 10000 -n 200 %A"},
	{"ib_read_bw", "ib_read_bw -R %D -F -s 10000 -n 200", "ib_read_bw -R %D -F -s 10000 -n 200 %A"},
	{"ib_atomic_bw,fetch-and-add", "ib_atomic_bw -R %D -F -A FETCH_AND_ADD -n 200", "ib_atomic_bw -R %D -F -A FETCH_AND_ADD -n 200 %A"},
	{"ib_atomic_bw,compare-and-swap", "ib_atomic_bw -R %D -F -A CMP_AND_SWAP -n 200", "ib_atomic_bw -R %D -F -A CMP_AND_SWAP -n 200 %A"},
}

// edgeTools have the smallest and the largest messages.
var edgeTools = []tool{
	{"rping,smallest", "rping -s -a %A -C 10 -v", "rping -c -a %A -C 10 -v"},
	{"rping,longest", "rping -s -a %A -C 10 -S 65000 -V", "rping -c -a %A -C 10 -S 65000 -V"},
	{"ib_send_bw,1", "ib_send_bw -R %D -F -s 1 -n 100", "ib_send_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_send_bw,1M", "ib_send_bw -R %D -F -s 1048576 -n 10", "ib_send_bw -R %D -F -s 1048576 -n 10 %A"},
	{"ib_write_bw,1", "ib_write_bw -R %D -F -s 1 -n 100", "ib_write_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_write_bw,1M", "ib_write_bw -R %D -F -s 1048576 -n 10", "ib_write_bw -R %D -F -s 1048576 -n 10 %A"},
	{"ib_read_bw,1", "ib_read_bw -R %D -F -s 1 -n 100", "ib_read_bw -R %D -F -s 1 -n 100 %A"},
	{"ib_read_bw,1M", "ib_read_bw -R %D -F -s 1048576 -n 10", "ib_read_bw -R %D -F -s 1048576 -n 10 %A"},
}

// ipv6Tools are those that can be told an IPv6 address as they are.
var ipv6Tools = []tool{
	{"rping", "rping -s -a %A -C 10 -v", "rping -c -a %A -C 10 -v"},
	{"rdma_client", "rdma_server -s %A -p 7473", "rdma_client -s %A -p 7473"},
}

// TestTools: "rdma-core's own tools against softroce: rping and
// rdma_server/rdma_client in both directions first; then ib_send_bw, ib_write_bw,
// ib_read_bw, ib_atomic_bw (both operations) over the RDMA CM against a small
// softroce peer of ours."
func TestTools(t *testing.T) {
	needGuest(t)
	if *peer == peerVerbs {
		t.Skip("the peer of the tools speaks softroce alone: run without -peer=verbs")
	}
	l := newLab(t)
	l.installPeer(t)
	both := func(tools []tool, suffix string) {
		for _, tool := range tools {
			t.Run(tool.name+suffix+",host-serves", func(t *testing.T) { l.exercise(t, tool, hostEnd, peerEnd) })
			t.Run(tool.name+suffix+",peer-serves", func(t *testing.T) { l.exercise(t, tool, peerEnd, hostEnd) })
		}
	}
	for _, mtu := range []int{1500, 9000} {
		l.link(t, mtu)
		both(tools, fmt.Sprintf(",mtu=%d", mtu))
	}
	l.link(t, 1500)
	both(edgeTools, "")
	for _, tool := range ipv6Tools {
		for server, addr := range map[end]string{hostEnd: "fd09::2", peerEnd: "fd09::1"} {
			here := tool
			here.server, here.client = strings.ReplaceAll(tool.server, "%A", addr), strings.ReplaceAll(tool.client, "%A", addr)
			t.Run(fmt.Sprintf("%s,at=%s", tool.name, addr), func(t *testing.T) { l.exercise(t, here, server, hostEnd+peerEnd-server) })
		}
	}
}

// exercise runs a tool's server at one end and its client at the other; both must
// end well, and the kernel must have nothing to say.
func (l *lab) exercise(t *testing.T, tool tool, server, client end) {
	logged := l.logEnd(t)
	l.cleanUpAtEnd(t)
	for try := 1; ; try++ {
		err := l.serveOnce(t, tool, server, client)
		if err == nil {
			break
		}
		// perftest connects twice, and its server listens anew in between: a fast
		// client comes too early. Our own server listens all the time.
		if l.other == nil || try == 5 || !strings.Contains(err.Error(), "REJECTED; error: 8") {
			t.Fatal(err)
		}
		l.cleanUp(t)
	}
	l.wantCleanLog(t, logged, nil)
}

// serveOnce returns the client's error.
func (l *lab) serveOnce(t *testing.T, tool tool, server, client end) error {
	words := func(command string, at end) string {
		if at == peerEnd && l.other == nil {
			command = "/usr/local/bin/peer " + command // ours takes the tool's own name and options
		}
		addr := map[end]string{hostEnd: "10.9.0.2", peerEnd: "10.9.0.1"}[server]
		return strings.NewReplacer("%A", addr, "%D", "-d rxe0").Replace(command)
	}
	// The kernel shows a listener shortly before it answers.
	ready := "rdma resource show cm_id | grep -q LISTEN && sleep 0.3"
	if server == peerEnd && l.other == nil {
		ready = "grep -q listening /tmp/server.out"
	}
	serve := env{"name": "server", "command": words(tool.server, server), "ready": ready, "action": "start", "limit": 20}
	l.must(t, server, time.Minute, "background", serve)
	out, err := l.run(client, time.Minute, script(t, "foreground", env{"command": words(tool.client, client)}))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	t.Logf("client: %s", bandwidth(out))
	l.must(t, server, time.Minute, "background", serve.with(env{"action": "finish"}))
	return nil
}

// bandwidth is the line of perftest's table, or nothing.
func bandwidth(out string) string {
	_, table, _ := strings.Cut(out, "#bytes")
	lines := strings.SplitN(table, "\n", 3)
	if len(lines) < 3 {
		return "done"
	}
	return strings.Join(strings.Fields("#bytes"+lines[0]+" | "+lines[1]), " ")
}

// installPeer builds our end of the tools and puts it in the guest.
func (l *lab) installPeer(t *testing.T) {
	t.Helper()
	if l.other == nil {
		l.install(t, "./test/interop/peer", "peer")
	}
}
