package fabricoptions

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/spf13/cobra"
)

// TestTable checks that each option of the table is a flag, is rejected as one, or belongs to other commands, and that
// its default is within its bounds.
func TestTable(t *testing.T) {
	var h Held
	cmd := &cobra.Command{}
	h.AddFlags(cmd, "")
	values := h.values()
	seen := map[string]bool{}
	for _, o := range All() {
		for _, name := range []string{o.Name, o.JSON, string(o.Short)} {
			if name != "" && name != "\x00" && name != o.Name && seen[name] {
				t.Errorf("two options are called %s", name)
			}
			seen[name] = true
		}
		f := cmd.Flags().Lookup(o.Name)
		switch {
		case values[o.Name] == nil && o.Refused() == "" && o.Name != "persistent":
			t.Errorf("--%s has no place and is not refused", o.Name)
		case values[o.Name] == nil && o.Refused() == "":
		case f == nil:
			t.Errorf("--%s is no flag", o.Name)
		case values[o.Name] != nil && (f.Usage == "" || f.Usage != o.Usage):
			t.Errorf("--%s says %q, want %q", o.Name, f.Usage, o.Usage)
		}
		if n, is := values[o.Name].(*int); is && o.Max > 0 {
			if !o.InRange(*n) {
				t.Errorf("--%s is %d by default, which is out of range", o.Name, *n)
			}
			if unset, err := strconv.Atoi(o.Unset); err == nil && o.InRange(unset) {
				t.Errorf("--%s: %s stands for the default and is in range", o.Name, o.Unset)
			}
		}
	}
	for name := range values {
		if !seen[name] {
			t.Errorf("--%s is not in the table", name)
		}
	}
}

// TestHandedOver checks that options are passed unchanged to another process.
func TestHandedOver(t *testing.T) {
	args := []string{"-a", "192.0.2.1", "-n", "nqn.2026-11.org.example:disk", "-i", "4", "-l", "-1", "-F", "30", "-D", "--iopolicy", "round-robin",
		"--timeout", "7s", "--congestion", "no-ecn", "-T", "8", "--provider", "auto"}
	var h Held
	cmd := &cobra.Command{}
	h.AddFlags(cmd, "")
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	given := Given(cmd)
	other, err := Parse(given)
	if err != nil {
		t.Fatal(err)
	}
	if other.NrIOQueues != 4 || other.CtrlLoss != -1 || other.fastIOFail != 30 || !other.Duplicate || other.tos != 8 || other.Timeout != h.Timeout || !other.Congestion.NoECN {
		t.Errorf("handed over %v, got %+v", given, other)
	}
	if len(given) != 11 {
		t.Errorf("handed over %v", slices.Sorted(maps.Keys(given)))
	}
	if over := Over(given, map[string]string{"traddr": "192.0.2.9", "ctrl-loss-tmo": "5"}); over["traddr"] != "192.0.2.1" || over["ctrl-loss-tmo"] != "5" {
		t.Errorf("with options of the command line: %v", over)
	}
	for name, value := range map[string]string{"queue-size": "0", "nr-io-queues": "0", "reconnect-delay": "0", "tos": "-1", "persistent": "true"} {
		if _, err := Parse(map[string]string{name: value}); err != nil {
			t.Errorf("%s=%s, which is the default: %v", name, value, err)
		}
	}
}

// TestBounds checks that values out of range, and options not supported over RDMA, are rejected.
func TestBounds(t *testing.T) {
	for _, args := range [][]string{{"-i", "0"}, {"-Q", "1"}, {"-Q", "1025"}, {"-k", "-1"}, {"-c", "0"}, {"-l", "-2"}, {"-F", "2147484"}, {"-W", "1"}, {"--tls"}, {"--tls_key", "x"}, {"-g"}} {
		var h Held
		cmd := &cobra.Command{}
		h.AddFlags(cmd, "")
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
