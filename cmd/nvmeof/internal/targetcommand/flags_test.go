package targetcommand

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestFlagWarnings checks the warnings about names that are not NQNs, with the flag that contains them.
func TestFlagWarnings(t *testing.T) {
	const name = "nqn.2026-11.org.example:a"
	for _, c := range []struct {
		nqn, host nvmeof.NQN
		any       bool
		want      []string
	}{
		{name, name, false, nil},
		{"disk", name, true, []string{"--allow-any-host: ", "--nqn disk: NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, "}},
		{name, "host1", false, []string{"--allow-host host1: NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, "}},
	} {
		f := &Flags{AllowAnyHost: c.any}
		doc := &config.Document{Subsystems: []*config.Subsystem{{NQN: c.nqn, Hosts: []*config.Host{{NQN: c.host}}}}}
		got := f.warnings(doc)
		for i := range max(len(got), len(c.want)) {
			if i >= len(got) || i >= len(c.want) || !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("--nqn %s --allow-host %s: %q, want %q", c.nqn, c.host, got, c.want)
				break
			}
		}
	}
}

func TestControllerIDs(t *testing.T) {
	var r controllerRange
	for _, bad := range []string{"", "1", "0..5", "5..4", "1..65520", "1..2..3", "a..b", "-1..4"} {
		if r.Set(bad) == nil || r.String() != "" {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := r.Set("2041..4080"); err != nil || r.String() != "2041..4080" || r.Type() != "range" {
		t.Errorf("%v, %v", r.String(), err)
	}
}
