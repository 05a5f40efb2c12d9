package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var monitoring = []documented{
	{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --allow-any-host --metrics 127.0.0.1:9420",
		instead: []string{"1GiB", "16MiB", "127.0.0.1:9420", "SCRAPED"}, stays: "metrics at http://SCRAPED/metrics\n"},
	{line: "curl -s http://127.0.0.1:9420/metrics", by: "cmd/nvmeof TestMonitoringPage"},
	{line: "promtool test rules deploy/prometheus/nvmeof_test.yml", by: "nvmeof/metrics TestAlerts"},
	{line: "go run ./test/bench -only metrics", by: "test/bench TestSmoke"},
}

// TestMonitoringPage does what docs/monitoring.md says; curl is another program's.
func TestMonitoringPage(t *testing.T) {
	beside(t)
	a, at := loopbackAddress(), freePort(t)
	r := newReader(t, "192.0.2.1", a, "ADDR1", a, "SCRAPED", at)
	r.doDocumented(monitoring)
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if want := `nvmf_namespace_size_bytes{nqn="nqn.2026-11.org.example:disk",nsid="1"} 1.6777216e+07`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v: no %s in\n%s", err, want, text)
	}
}

// freePort is an address of the loopback with a port that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
