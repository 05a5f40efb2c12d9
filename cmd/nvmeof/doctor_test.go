package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDoctor runs doctor on this machine, of which only the loopback interface is known.
func TestDoctor(t *testing.T) {
	text := command(t, "doctor")
	for _, section := range []string{"transports of this program", "RDMA devices", "network interfaces", "UDP port 4791", "what --transport auto selects", "127.0.0.1"} {
		if !strings.Contains(text.out, section) {
			t.Errorf("no %q in:\n%s", section, text.out)
		}
	}
	o := command(t, "doctor", "-o", "json")
	var report struct {
		Works      bool
		Transports []struct{ Address, Auto, Interface string }
	}
	if err := json.Unmarshal([]byte(o.out), &report); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(o.err); report.Works && got != 0 || !report.Works && got != exitFailed {
		t.Errorf("exit code %d although works is %v", got, report.Works)
	}
	for _, a := range report.Transports {
		if a.Address == "127.0.0.1" && a.Interface == "lo" {
			return
		}
	}
	t.Errorf("127.0.0.1 is missing in %+v", report.Transports)
}

func TestDoctorFormat(t *testing.T) {
	command(t, "doctor", "-o", "yaml").want(t, exitUsage, "yaml")
}
