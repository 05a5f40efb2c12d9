package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDashboard runs each query of the dashboard in a Prometheus that has scraped a target and a host under load. It
// takes the time of a few scrapes, and runs only with -long.
func TestDashboard(t *testing.T) {
	if !*long {
		t.Skip("it waits for scrapes: run it with -long")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus, of Debian's package of that name, is not installed")
	}
	beside(t)
	disk := filepath.Join(t.TempDir(), "disk.img")
	of, from := freePort(), freePort()
	s := startTarget(t, "--export", "mem:8MiB", "--export", disk+",size=8m", "--allow-any-host", "--metrics", of, "--metrics-hosts")
	a := startAttach(t, s, "--metrics", from)
	command(t, "discover", "-t", "rdma", "-a", s.addr).want(t, 0, testNQN)
	loads := []*nbdLoad{a.load(t, "1"), a.load(t, "2")}
	p := startPrometheus(t, of, from)
	socket := regexp.MustCompile(`controlled at (\S+)\n`).FindStringSubmatch(s.out.String())
	command(t, "ls", "--socket", socket[1]).want(t, 0, testNQN)
	large := dialNBD(t, a.socket, "2")
	p.await(t, fmt.Sprintf("min(count_over_time(up[1m])) >= %d", scrapes), func() error {
		return large.do(nbdWrite, 4<<20, make([]byte, 64<<10)) // with an RDMA READ, which small writes do not need
	})

	queries := 0
	for _, panel := range readDashboard(t) {
		for _, q := range panel.Targets {
			queries++
			expr := asGrafana.Replace(q.Expr)
			switch n, err := p.query(expr); {
			case err != nil:
				t.Errorf("%s: %v", panel.Title, err)
			case n == 0 && !seldom.MatchString(q.Expr):
				t.Errorf("%s: nothing comes of %s", panel.Title, expr)
			}
		}
	}
	if queries < 80 {
		t.Errorf("%d queries", queries)
	}
	for _, l := range loads {
		l.end(t)
	}
}

// scrapes is the number of scrapes, a second apart, before the queries.
const scrapes = 5

// seldom matches the counters of what does not happen in the test, whose target is in no group.
var seldom = regexp.MustCompile(`(nvmf_(command_errors|aborts|reservation_\w+|connect_rejects|disconnects|keepalive_timeouts|async_events|ana_changes|gateway_\w+)` +
	`|nvmf_host_(request_errors|path_losses|path_connect_failures)|roce_(drops|cm_rejects|events))\w*\b`)

// asGrafana substitutes values for variables.
var asGrafana = strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*", "$nqn", ".*")

// A panel is a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func readDashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/nvmeof.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels     []panel
		Templating struct {
			List []struct{ Definition string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	values := panel{Title: "variables"}
	for _, v := range board.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			values.Targets = append(values.Targets, struct{ Expr string }{fmt.Sprintf("count by (%s) (%s)", m[2], m[1])})
		}
	}
	if len(values.Targets) != 2 {
		t.Errorf("variables %+v", board.Templating.List)
	}
	return append(board.Panels, values)
}

// A prometheus is a running Prometheus server.
type prometheus struct{ at string }

// startPrometheus starts a server that scrapes a target and a host once a second.
func startPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	dir, p := t.TempDir(), &prometheus{freePort()}
	cfg := "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: nvmeof\n  static_configs: [{targets: [\"" + strings.Join(targets, `", "`) + "\"]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	out := newOutput()
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.at, "--log.level", "warn")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus:\n%s", out)
		}
	})
	return p
}

// await waits until a query has results, and calls meanwhile in between.
func (p *prometheus) await(t *testing.T, expr string, meanwhile func() error) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		n, err := p.query(expr)
		if err == nil && n > 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("nothing comes of %s: %v", expr, err)
		}
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// query returns how many series with a numeric value a query returns.
func (p *prometheus) query(expr string) (n int, err error) {
	r, err := http.Get("http://" + p.at + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Error, expr)
	}
	for _, series := range answer.Data.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}
