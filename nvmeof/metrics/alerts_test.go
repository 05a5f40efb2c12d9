package metrics

import (
	"flag"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "what promtool says of the alerts, too")

const alerts = "../../deploy/prometheus"

// TestAlertsNameMetrics: the metrics and labels of the alerts exist.
func TestAlertsNameMetrics(t *testing.T) {
	known := allFamilies()
	text, err := os.ReadFile(alerts + "/nvmeof.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`((?:nvmf|roce)_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(string(text), -1)
	for _, m := range names {
		f := known[strings.TrimSuffix(m[1], "_bucket")]
		if f == nil {
			t.Errorf("%s is no metric", m[1])
			continue
		}
		for _, l := range regexp.MustCompile(`(\w+)[=!]`).FindAllStringSubmatch(m[2], -1) {
			if !strings.Contains(" "+strings.Join(f.labels, " ")+" ", " "+l[1]+" ") {
				t.Errorf("%s has no label %s", m[1], l[1])
			}
		}
	}
	if len(names) < 14 {
		t.Errorf("%d metrics in the alerts", len(names))
	}
}

// allFamilies returns the families of all collectors, by name.
func allFamilies() map[string]*family {
	known := map[string]*family{}
	for _, of := range []any{newFamilies(), newHostFamilies(), NewNBD(noStats), newGatewayFamilies(), NewSoftroce(noDevices)} {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			if v.Field(i).Type() == reflect.TypeFor[*family]() {
				f := *(**family)(v.Field(i).Addr().UnsafePointer())
				known[f.name] = f
			}
		}
	}
	return known
}

// TestAlerts: each alert fires when it should, and not otherwise.
func TestAlerts(t *testing.T) {
	if !*long {
		t.Skip("it takes two seconds of processor time: -long")
	}
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, of Debian's package prometheus, is not installed")
	}
	cmd := exec.CommandContext(t.Context(), promtool, "test", "rules", "nvmeof_test.yml")
	cmd.Dir = alerts
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
