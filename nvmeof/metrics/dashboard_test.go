package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDashboardNamesMetrics: the metrics and labels of each query exist, and each panel has a query and a place of
// its own.
func TestDashboardNamesMetrics(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana/nvmeof.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	known := allFamilies()
	shown := map[string]bool{}
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q has no query, or the number of another", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := places[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("panel %q lies over %q, or beyond the edge", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		for _, q := range p.Targets {
			for name := range familiesOf(t, known, q.Expr) {
				shown[name] = true
			}
		}
	}
	for name := range known {
		if !shown[name] && !strings.HasSuffix(name, "_info") && !slices.Contains(notShown, name) {
			t.Errorf("%s is in no panel", name)
		}
	}
}

// notShown are metrics that the dashboard does not show.
var notShown = []string{
	"nvmf_start_time_seconds", "nvmf_host_start_time_seconds", "nvmf_subsystem_namespaces", "nvmf_subsystem_hosts_allowed", "nvmf_listeners",
	"nvmf_host_namespace_size_bytes", "nvmf_host_path_keep_alive_seconds", "nvmf_host_path_requests_in_flight",
}

// familiesOf returns the families of a query.
func familiesOf(t *testing.T, known map[string]*family, expr string) map[string]*family {
	t.Helper()
	found := map[string]*family{}
	labels := []string{"instance", "le"}
	for _, m := range regexp.MustCompile(`\b((?:nvmf|roce)_[a-z_]+)\b(\{[^}]*\})?`).FindAllStringSubmatch(expr, -1) {
		f := known[m[1]]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if name, is := strings.CutSuffix(m[1], suffix); is && f == nil {
				f = known[name]
			}
		}
		if f == nil {
			t.Errorf("%s is no metric: %s", m[1], expr)
			continue
		}
		found[f.name] = f
		labels = append(labels, f.labels...)
		for _, l := range regexp.MustCompile(`(\w+)(?:=~|!=|=|!~)"`).FindAllStringSubmatch(m[2], -1) {
			if l[1] != "instance" && !slices.Contains(f.labels, l[1]) {
				t.Errorf("%s has no label %s: %s", f.name, l[1], expr)
			}
		}
	}
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(by[1], ", ") {
			if !slices.Contains(labels, l) {
				t.Errorf("nothing has the label %s: %s", l, expr)
			}
		}
	}
	return found
}
