package shell

import (
	"os/exec"
	"testing"
)

// TestQuote makes a shell read the words.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"": "''", "/srv/disk.img": "/srv/disk.img", "nqn.2026-11.org.example:disk": "nqn.2026-11.org.example:disk",
		"/srv/my disk": "'/srv/my disk'", "it's": `'it'\''s'`, "x; rm -rf $HOME #": "'x; rm -rf $HOME #'", "~root": "'~root'", "a~b": "a~b",
		"$(id)": "'$(id)'", "`id`": "'`id`'", "a\nb": "'a\nb'", `\`: `'\'`, "*": "'*'", "é": "'é'", "{a,b}": "'{a,b}'", "!": "'!'",
	} {
		if got := Quote(s); got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
		if out, err := exec.Command("sh", "-c", "printf %s "+Quote(s)).Output(); err != nil || string(out) != s {
			t.Errorf("a shell reads %s as %q: %v", Quote(s), out, err)
		}
	}
}
