package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var monitoring = []documented{
	{line: "nvmeof top", by: "cmd/nvmeof TestTop"},
	{line: "nvmeof top --once -o json", by: "cmd/nvmeof TestTop"},
	{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --allow-any-host --metrics 127.0.0.1:9420",
		instead: []string{"1GiB", "16MiB", "127.0.0.1:9420", "SCRAPED"}, stays: "metrics at http://SCRAPED/metrics\n"},
	{line: "curl -s http://127.0.0.1:9420/metrics", by: "cmd/nvmeof TestMonitoringPage"},
	{line: "nvmeof attach -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --socket /run/disk.sock --metrics 127.0.0.1:9421",
		instead: []string{"/run/", "DIR/", "127.0.0.1:9421", "HOST"}, stays: "nbd-client -unix DIR/disk.sock "},
	{line: "nvmeof events --since 24h", wants: []string{"info    start", "info    listener    listener is open"}},
	{line: "nvmeof events --follow -o json", by: "cmd/nvmeof TestEvents"},
	{line: "promtool test rules deploy/prometheus/nvmeof_test.yml", by: "nvmeof/metrics TestAlerts"},
	{line: "go test -v ./cmd/nvmeof -run '^TestDashboard$' -long", by: ".ci/run"},
	{line: "nvmeof trace --slower-than 5ms", stays: "TIME"},
	{line: "nvmeof trace --nsid 1 --count 100 -o json", by: "cmd/nvmeof TestTraceCommand"},
	{line: "nvmeof capture -w target.pcapng --seconds 10", by: "cmd/nvmeof TestCaptureCommand"},
	{line: "nvmeof capture -w - --host nqn.2014-08.org.nvmexpress:uuid:7d1c5e2e-6a5b-4f0c-9d3e-0a4b8c2f1e90 | tshark -r -", by: "cmd/nvmeof TestCaptureCommand"},
	{line: "nvmeof capture --device nvme0 -w host.pcapng", by: "cmd/nvmeof TestCaptureOfHost"},
	{line: "go run ./test/bench -only metrics", by: "test/bench TestSmoke"},
}

// TestMonitoringPage follows docs/monitoring.md; curl is an external program.
func TestMonitoringPage(t *testing.T) {
	beside(t)
	a, at, from := loopbackAddress(), freePort(), freePort()
	r := newReader(t, "192.0.2.1", a, "ADDR1", a, "SCRAPED", at, "HOST", from)
	r.doDocumented(monitoring)
	wantMetrics(t, at, `nvmf_namespace_size_bytes{nqn="nqn.2026-11.org.example:disk",nsid="1"} 1.6777216e+07`)
	wantMetrics(t, from, `nvmf_host_namespace_size_bytes{nqn="nqn.2026-11.org.example:disk",nsid="1",subsystem=""} 1.6777216e+07`,
		`state="live",subsystem=""} 1`, `nvmf_host_nbd_clients_total 0`, `roce_packets_total{direction="out",opcode_class="send"} `)
}

// TestConnectMetrics checks that connect and connect-all serve the metrics of their connections, and that an address
// in use is an error before anything is started.
func TestConnectMetrics(t *testing.T) {
	inOwnRunDir(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	at := freePort()
	c := startCommand(t, s.at("connect", "-n", testNQN, "--metrics", at)...)
	c.out.await(t, "connecting to device: nvme0\n")
	c.errOut.await(t, "nvmeof: metrics at http://"+at+"/metrics\n")
	wantMetrics(t, at, `nsid="1",subsystem="nvme-subsys0"} 1.048576e+06`, `state="live",subsystem="nvme-subsys0"} 1`, `nvmf_host_nbd_clients_total 0`, `roce_packets_total{direction="out",opcode_class="send"} `)
	command(t, s.at("connect-all", "--metrics", at)...).want(t, exitFailed, "metrics: listen tcp "+at, "address already in use: another program uses it; choose another port")
	command(t, s.at("connect", "-n", testNQN, "--metrics", "9420", "-D")...).want(t, exitUsage, "--metrics")
	command(t, "disconnect-all").want(t, 0)
	c.wantEnd(0)
	c = startCommand(t, s.at("connect-all", "--metrics", at)...)
	c.out.await(t, "connecting to device: nvme0\n")
	wantMetrics(t, at, `state="live",subsystem="nvme-subsys0"} 1`)
	c.stop()
	c.wantEnd(0)
}

// wantMetrics checks texts in what Prometheus reads.
func wantMetrics(t *testing.T, at string, want ...string) {
	t.Helper()
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, w := range want {
		if err != nil || !strings.Contains(string(text), w) {
			t.Errorf("%v: no %s in\n%s", err, w, text)
		}
	}
}

// freePort returns an unused address of the loopback that no other program will use: a free port of 127.0.0.1 may be
// taken at any moment.
func freePort() string { return net.JoinHostPort(loopbackAddress(), "9420") }
