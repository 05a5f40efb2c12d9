package config

import (
	"strings"
	"testing"
)

// TestNotUTF8Column: columns count characters in YAML and bytes in JSON.
func TestNotUTF8Column(t *testing.T) {
	t.Parallel()
	for text, at := range map[string]string{
		"version: 1\nnote: {\"ä€😀\": \"\xe4\"}\n":          "f:2:16:",
		"{\"version\": 1,\n\"note\": {\"ä€😀\": \"\xe4\"}}": "f:2:24:",
	} {
		if _, _, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%q: %v, want %s", text, err, at)
		}
	}
}

// TestNotUTF8: a text that is not UTF-8, or has half of a surrogate pair, is refused, since it would name another
// file than was meant. Python, and thus nvmetcli, writes a byte of a file name that is not UTF-8 as such a half.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	const yaml, json = "version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - {nsid: 1, file: {path: \"/srv/D?.img\", size: 1MiB}}\n",
		`{"version": 1, "subsystems": [{"nqn": "a", "namespaces": [{"nsid": 1, "file": {"path": "/srv/D?.img", "size": "1MiB"}}]}]}`
	for _, text := range []string{yaml, json} {
		for _, bad := range []string{"\xe4", "\xed\xb3\xa4", `\udce4`, `\ud800`, `\uD83D\u00e4`, `\ude00\ud83d`, `\\\ud800`} {
			_, _, err := Parse("f", []byte(strings.Replace(text, "?", bad, 1)))
			if err == nil || !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "not YAML: ") || !strings.HasPrefix(err.Error(), "f:5:") && !strings.HasPrefix(err.Error(), "f:1:") {
				t.Errorf("%q in\n%s\n%v", bad, text, err)
			}
		}
		for _, good := range []string{"ä", "�", `\ufffd`, `\u00e4`, "😀", `\\ud800`} {
			if strings.HasPrefix(text, "v") && good == `\ufffd` { // in YAML this cannot be told from an invalid character
				continue
			}
			doc, _, err := Parse("f", []byte(strings.Replace(text, "?", good, 1)))
			if err != nil {
				t.Errorf("%q: %v", good, err)
				continue
			}
			for _, again := range [][]byte{doc.YAML(), doc.JSON()} {
				if now, _, err := Parse("f", again); err != nil || now.Subsystems[0].Namespaces[0].File.Path != doc.Subsystems[0].Namespaces[0].File.Path {
					t.Errorf("%s\n%v", again, err)
				}
			}
		}
	}
	doc, _, err := Parse("f", []byte(strings.Replace(json, "?", `\ud83d\ude00\ufffd`, 1)))
	if err != nil || doc.Subsystems[0].Namespaces[0].File.Path != "/srv/D😀�.img" {
		t.Errorf("%v", err)
	}
	if err := Merge("", []byte(`{"f\ud800": 1}`), new(Host)); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("the name of a field: %v", err)
	}
	for _, bad := range []string{"\xe4", `\udce4`} {
		text := strings.Replace(string(read(t, "testdata/nvmet.json")), `"path": "/dev/`, `"path": "/dev/`+bad, 1)
		if _, err := ImportNvmetcli("c", []byte(text), "/keys"); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("nvmetcli's file with %q: %v", bad, err)
		}
	}
}
