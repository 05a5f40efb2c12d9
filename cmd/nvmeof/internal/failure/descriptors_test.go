package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWithRemedy checks that a lack of descriptors is reported with the limit and the remedy.
func TestWithRemedy(t *testing.T) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                 "",
		"no space left":    "no space left",
		"too many files\n": "too many files\n",
		fmt.Sprintf("nvmeof: open /srv/disk: %v\n", unix.EMFILE): fmt.Sprintf(
			"nvmeof: open /srv/disk: too many open files (this process may have %d: start it with more, by ulimit -n, or LimitNOFILE= in its systemd unit)\n", l.Cur),
		fmt.Sprintf("socket: %v; again\n", unix.ENFILE): "socket: too many open files in system (of the whole machine: sysctl fs.file-max, fs.file-nr); again\n",
	} {
		if got := WithRemedy(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	line := WithRemedy(`{"msg":"a client waits","error":"accept: too many open files"}`)
	var fields map[string]string
	if err := json.Unmarshal([]byte(line), &fields); err != nil || !strings.Contains(fields["error"], "LimitNOFILE=") {
		t.Errorf("a line of JSON became %s: %v", line, err)
	}
	if got := RemedyAtTarget("open: too many open files"); !strings.Contains(got, "as the process of the target may have: start it with more, by ulimit -n") {
		t.Errorf("of a target: %q", got)
	}
	if got := Text(fmt.Errorf("socket: %w", unix.EMFILE)); !strings.Contains(got, "this process may have") {
		t.Errorf("of an error: %q", got)
	}
	if got := Text(errors.New("target: too many open files")); strings.Contains(got, "this process") {
		t.Errorf("of another's error: %q", got)
	}
}
