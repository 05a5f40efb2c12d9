package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A tool is a program of rdma-core or perftest at one end, and a command of ours, or the tool itself, at the other. In
// its options %A is the server's address, and %D selects the device, which perftest needs on rxe.
type tool struct {
	name   string
	server string
	client string
	// Options at our end, if they differ from the tool's name and options.
	ourServer, ourClient string
}

// commands maps the tools to our commands, which accept the tools' options.
var commands = map[string]string{
	"rping":      "ping",
	"ib_send_bw": "send-bw", "ib_send_lat": "send-lat",
	"ib_write_bw": "write-bw", "ib_write_lat": "write-lat",
	"ib_read_bw": "read-bw", "ib_read_lat": "read-lat",
	"ib_atomic_bw": "atomic-bw", "ib_atomic_lat": "atomic-lat",
}

// ourCommand returns our command line that replaces a tool's.
func (l *lab) ourCommand(tool, ours string) string {
	if ours == "" {
		name, options, _ := strings.Cut(tool, " ")
		ours = commands[name] + strings.ReplaceAll(" "+options, " %D", "")
	}
	return "/usr/local/bin/nvmeof rdma " + ours + " --provider " + l.transport()
}

// measure returns a tool of perftest with options that both ends get.
func measure(name, program, options string) tool {
	both := program + " -R %D -F " + options
	return tool{name: name, server: both, client: both + " %A"}
}

func ping(name, options string) tool {
	return tool{name: name, server: "rping -s -a %A " + options, client: "rping -c -a %A " + options}
}

func hello(port int) tool {
	return tool{"rdma_client", fmt.Sprintf("rdma_server -s %%A -p %d", port), fmt.Sprintf("rdma_client -s %%A -p %d", port),
		fmt.Sprintf("hello --host-traddr %%A -p %d", port), fmt.Sprintf("hello -p %d %%A", port)}
}

var tools = []tool{
	ping("rping", "-C 20 -S 1000 -V -v"),
	hello(7471),
	measure("ib_send_bw", "ib_send_bw", "-s 10000 -n 200"),
	measure("ib_write_bw", "ib_write_bw", "-s 10000 -n 200"),
	measure("ib_read_bw", "ib_read_bw", "-s 10000 -n 200"),
	measure("ib_atomic_bw,fetch-and-add", "ib_atomic_bw", "-A FETCH_AND_ADD -n 200"),
	measure("ib_atomic_bw,compare-and-swap", "ib_atomic_bw", "-A CMP_AND_SWAP -n 200"),
}

// edgeTools send the smallest and the largest messages, and more messages than a queue holds. The latency tools send
// small ones.
var edgeTools = []tool{
	measure("ib_send_lat", "ib_send_lat", "-n 300"),
	measure("ib_write_lat", "ib_write_lat", "-n 300"),
	measure("ib_read_lat", "ib_read_lat", "-n 300"),
	measure("ib_atomic_lat,fetch-and-add", "ib_atomic_lat", "-A FETCH_AND_ADD -n 300"),
	measure("ib_atomic_lat,compare-and-swap", "ib_atomic_lat", "-A CMP_AND_SWAP -n 300"),
	ping("rping,smallest", "-C 10 -v"),
	ping("rping,longest", "-C 10 -S 65000 -V"),
	measure("ib_send_bw,1", "ib_send_bw", "-s 1 -n 100"),
	measure("ib_send_bw,1M", "ib_send_bw", "-s 1048576 -n 10"),
	measure("ib_send_bw,many", "ib_send_bw", "-s 64 -n 5000"),
	measure("ib_write_bw,1", "ib_write_bw", "-s 1 -n 100"),
	measure("ib_write_bw,1M", "ib_write_bw", "-s 1048576 -n 10"),
	measure("ib_write_bw,many", "ib_write_bw", "-s 64 -n 5000"),
	measure("ib_read_bw,1", "ib_read_bw", "-s 1 -n 100"),
	measure("ib_read_bw,1M", "ib_read_bw", "-s 1048576 -n 10"),
	measure("ib_send_lat,64K", "ib_send_lat", "-s 65536 -n 100"),
	measure("ib_write_lat,64K", "ib_write_lat", "-s 65536 -n 100"),
	measure("ib_read_lat,64K", "ib_read_lat", "-s 65536 -n 100"),
}

// ipv6Tools are those that accept an IPv6 address without further options.
var ipv6Tools = []tool{ping("rping", "-C 10 -v"), hello(7473)}

// TestTools runs rdma-core's and perftest's own tools against "nvmeof rdma", each in both directions, over the RDMA CM.
func TestTools(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if l.ours() {
		l.install(t, "./cmd/nvmeof", "nvmeof")
	}
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
			for _, command := range []*string{&here.server, &here.client, &here.ourServer, &here.ourClient} {
				*command = strings.ReplaceAll(*command, "%A", addr)
			}
			t.Run(fmt.Sprintf("%s,at=%s", tool.name, addr), func(t *testing.T) { l.exercise(t, here, server, hostEnd+peerEnd-server) })
		}
	}
}

// exercise runs a tool's server at one end and its client at the other. Both must succeed, and the kernel must log no
// complaint.
func (l *lab) exercise(t *testing.T, tool tool, server, client end) {
	logged := l.logEnd(t)
	l.cleanUpAtEnd(t)
	for try := 1; ; try++ {
		err := l.serveOnce(t, tool, server, client)
		if err == nil {
			break
		}
		// perftest connects twice, and its server listens anew in between, so a fast client may be early. Our own
		// server listens all the time.
		if l.ours() || try == 5 || !strings.Contains(err.Error(), "REJECTED; error: 8") {
			t.Fatal(err)
		}
		l.cleanUp(t)
	}
	l.wantCleanLog(t, logged, nil)
}

// serveOnce runs the server and the client once, and returns the client's error.
func (l *lab) serveOnce(t *testing.T, tool tool, server, client end) error {
	words := func(command, ours string, at end) string {
		if at == peerEnd && l.ours() {
			command = l.ourCommand(command, ours)
		}
		addr := map[end]string{hostEnd: "10.9.0.2", peerEnd: "10.9.0.1"}[server]
		return strings.NewReplacer("%A", addr, "%D", "-d rxe0").Replace(command)
	}
	// The kernel shows a listener shortly before the listener answers.
	ready := "rdma resource show cm_id | grep -q LISTEN && sleep 0.3"
	if server == peerEnd && l.ours() {
		ready = "grep -q listening /tmp/server.out"
	}
	serve := env{"name": "server", "command": words(tool.server, tool.ourServer, server), "ready": ready, "action": "start", "limit": 20}
	l.must(t, server, time.Minute, "background", serve)
	out, err := l.run(client, time.Minute, script(t, "foreground", env{"command": words(tool.client, tool.ourClient, client)}))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	t.Logf("client: %s", bandwidth(out))
	l.must(t, server, time.Minute, "background", serve.with(env{"action": "finish"}))
	return nil
}

// bandwidth returns the line of figures in perftest's table, or "".
func bandwidth(out string) string {
	_, table, _ := strings.Cut(out, "#bytes")
	lines := strings.SplitN(table, "\n", 3)
	if len(lines) < 3 {
		return "done"
	}
	return strings.Join(strings.Fields("#bytes"+lines[0]+" | "+lines[1]), " ")
}
