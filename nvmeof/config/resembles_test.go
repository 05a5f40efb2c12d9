package config

import "testing"

func TestResembles(t *testing.T) {
	for text, want := range map[string]bool{
		"":                               true,
		" \n":                            true,
		"version: 1\nlisteners: [":       true,
		"# a target\n\nversion: 2\nx: 1": true,
		`{"version": 1, "listeners": 7, "referrals": []}`:          true,
		`{"hosts": [], "ports": [], "subsystems": []}`:             true,
		`{"version": 1, "crc32c": "00000000", "state": {}}`:        false,
		`{"time": "2026-11-29T02:38:30Z", "operation": "addHost"}`: false,
		`{"version": 1`:     false,
		"DHHC-1:01:abcdef:": false,
		"notes\n":           false,
		"subversion: 1\n":   false,
		"version: 1\n\x00":  false,
		"version: \xff":     false,
		"QFI\xfb":           false,
	} {
		if got := Resembles([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
