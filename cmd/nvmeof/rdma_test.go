package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// converse runs a server and then a client below rdma, and returns the results of both.
func converse(t *testing.T, server, client string) (atServer, atClient outcome) {
	t.Helper()
	out, errOut := newOutput(), newOutput()
	args := append([]string{"rdma"}, strings.Fields(server)...)
	root := newRootFor(args, nil)
	root.SetOut(out)
	root.SetErr(errOut)
	ended := make(chan error, 1)
	go func() { ended <- execute(t.Context(), root, args) }() // ends with the client, or the test
	errOut.await(t, "listening on ")
	atClient = command(t, append([]string{"rdma"}, strings.Fields(client)...)...)
	select {
	case err := <-ended:
		return outcome{out.String(), errOut.String(), err}, atClient
	case <-time.After(time.Minute):
		t.Fatalf("the server does not end; the client: %v", atClient.err)
	}
	return atServer, atClient
}

// TestRDMA runs every command's server with its client. The output of both sides is that of rping and perftest.
func TestRDMA(t *testing.T) {
	t.Parallel()
	const bandwidth, latency = " #bytes     #iterations    BW peak[MiB/sec]", " #bytes #iterations    t_min[usec]"
	for _, c := range []struct {
		server, client     string
		atServer, atClient string
	}{
		{"ping -s -a %s -C 20 -S 1000 -V -v", "ping -c -a %s -C 20 -S 1000 -V -v", "server ping data: rdma-ping-19: TUVW", "20 pings of 1000 bytes, round trip"},
		{"ping -s -a %s", "ping -c -a %s -C 3 -S 32", "3 pings", "3 pings of 32 bytes"},
		{"hello --host-traddr %s", "hello %s", "answered 127.0.", "answered"},
		{"send-bw --host-traddr %s -R -F -s 10000 -n 700", "send-bw -R -F -s 10000 -n 700 %s", "\n 10000      700 ", "\n 10000      700 "},
		{"send-lat --host-traddr %s -n 100", "send-lat -n 100 %s", latency, latency},
		{"lat --host-traddr %s -s 9000 -n 100", "lat -s 9000 -n 100 %s", "\n 9000    100 ", "\n 9000    100 "},
		{"write-bw --bind_source_ip %s -s 10000 -n 200", "write-bw -s 10000 -n 200 %s", bandwidth, bandwidth},
		{"write-lat --host-traddr %s -n 100", "write-lat -n 100 %s", latency, latency},
		{"read-bw --host-traddr %s -s 10000 -n 200", "read-bw -s 10000 -n 200 %s", "\n 10000      200 ", "RDMA_Read BW Test"},
		{"read-lat --host-traddr %s -e -n 50", "read-lat -e -n 50 %s", "RDMA_Read Latency Test", latency},
		{"atomic-bw --host-traddr %s -n 200", "atomic-bw -n 200 %s", "Atomic FETCH_AND_ADD BW Test", bandwidth},
		{"atomic-bw --host-traddr %s -A CMP_AND_SWAP -n 200", "atomic-bw -A CMP_AND_SWAP -n 200 %s", "\n 8          200 ", bandwidth},
		{"atomic-lat --host-traddr %s -n 50", "atomic-lat -n 50 %s", "Atomic FETCH_AND_ADD Latency Test", latency},
		{"atomic-lat --host-traddr %s -A CMP_AND_SWAP -n 50", "atomic-lat -A CMP_AND_SWAP -n 50 %s", "Atomic CMP_AND_SWAP", latency},
		{"read-bw --host-traddr %s -s 8388608 -n 5", "read-bw -s 8388608 -n 5 %s", "\n 8388608    5 ", bandwidth},
		{"write-bw --host-traddr %s -s 1 -n 5", "write-bw -s 1 -n 5 -t 3 %s", bandwidth, bandwidth},
		{"send-bw --host-traddr %s -s 64 -r 7 -n 500", "send-bw -s 64 -n 500 %s", "RX depth        : 7", "TX depth        : 128"},
	} {
		t.Run(c.client, func(t *testing.T) {
			t.Parallel()
			addr := loopbackAddress()
			server, client := converse(t, fmt.Sprintf(c.server, addr), fmt.Sprintf(c.client, addr))
			server.want(t, 0, c.atServer)
			client.want(t, 0, c.atClient)
		})
	}
}

// TestRDMAJSON checks that the names are those of perftest's --out_json, and that standard output contains nothing
// else.
func TestRDMAJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, client string
		keys           []string
	}{
		{"write-bw -o json -n 50 --host-traddr %s", "write-bw -o json -n 50 %s", []string{"MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate"}},
		{"send-lat -o json -n 50 --host-traddr %s", "send-lat -o json -n 50 %s", []string{"t_min", "t_max", "t_typical", "t_avg", "t_stdev", "percentile_99", "percentile_99.9"}},
		{"ping -s -o json -v -a %s", "ping -c -o json -v -C 2 -a %s", []string{"pings"}},
	} {
		t.Run(c.client, func(t *testing.T) {
			t.Parallel()
			addr := loopbackAddress()
			server, client := converse(t, fmt.Sprintf(c.server, addr), fmt.Sprintf(c.client, addr))
			for _, o := range []outcome{server, client} {
				o.want(t, 0)
				var got map[string]any
				if err := json.Unmarshal([]byte(o.out), &got); err != nil {
					t.Fatalf("%v in:\n%s", err, o.out)
				}
				if results, ok := got["results"].(map[string]any); ok {
					got = results
				}
				for _, key := range c.keys {
					if _, ok := got[key]; !ok {
						t.Errorf("no %q in:\n%s", key, o.out)
					}
				}
			}
		})
	}
}

// TestRDMADisagreement checks that each side notices when the other deviates from what was agreed.
func TestRDMADisagreement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, client         string
		serverCode, clientCode int
		serverSays, clientSays string
	}{
		{"ping -s -a %s -C 4", "ping -c -a %s -C 3", 1, 0, "3 pings, want 4", ""},
		{"send-bw --host-traddr %s -s 2000 -n 10", "send-bw -s 1000 -n 10 %s", exitWrongData, 1, "message 0 has 1000 bytes, want 2000: is --size the same", "ended"},
		{"write-bw --host-traddr %s -n 10", "read-bw -n 10 %s", 1, 1, "ended", "remote access"},
	} {
		t.Run(c.client, func(t *testing.T) {
			t.Parallel()
			addr := loopbackAddress()
			server, client := converse(t, fmt.Sprintf(c.server, addr), fmt.Sprintf(c.client, addr))
			server.want(t, c.serverCode, c.serverSays)
			client.want(t, c.clientCode, c.clientSays)
		})
	}
}

// TestRDMAWrongUse checks that each mistake is reported as a usage error, before anything is opened.
func TestRDMAWrongUse(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"ping", "either -s"},
		{"ping -s -c", "either -s"},
		{"ping -c", "--addr is missing"},
		{"ping -s -S 5", "--size 5: 32 to 65536"},
		{"ping -s -p 0", "--port 0"},
		{"ping -s -o yaml", "--output-format yaml"},
		{"send-bw -n 4", "--iters 4: 5 to"},
		{"send-bw -s 0", "--size 0"},
		{"write-lat -e", "--events"},
		{"atomic-bw -A SWAP", "FETCH_AND_ADD or CMP_AND_SWAP"},
		{"read-bw --provider ucx 127.0.0.1", "--provider ucx"},
		{"send-lat --rdma_cm=false", "--rdma_cm"},
	} {
		args := append([]string{"rdma"}, strings.Fields(c.line)...)
		command(t, args...).want(t, exitUsage, c.says)
	}
}

// TestRDMANobody checks that a missing server, or one that is not needed any more, is reported in time.
func TestRDMANobody(t *testing.T) {
	if verbs.Built {
		t.Skip("the other provider's words are other ones")
	}
	t.Parallel()
	addr := loopbackAddress()
	out, errOut := newOutput(), newOutput()
	args := []string{"rdma", "ping", "-s", "-a", addr}
	root := newRootFor(args, nil)
	root.SetOut(out)
	root.SetErr(errOut)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- execute(ctx, root, args) }() // ends at cancel
	errOut.await(t, "listening on "+addr)
	command(t, "rdma", "write-bw", addr).want(t, exitConnection, "nothing listens on that port")
	cancel()
	if err := <-ended; exitCode(err) != exitInterrupted {
		t.Errorf("an interrupted server ends with %v", err)
	}
}
