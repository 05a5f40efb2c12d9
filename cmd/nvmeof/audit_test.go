package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestAudit checks that each change has a line with its author, object, old and new value, and result, and that read
// operations have none.
func TestAudit(t *testing.T) {
	beside(t)
	c := startConfigured(t, testConfig+"audit: {file: DIR/audit}\n")
	c.out.await(t, "nvme connect")
	run := func(code int, line string) { command(t, append(words(line), "-n", testNQN)...).want(t, code) }
	run(0, "namespace set 2 --read-only")
	run(0, "namespace set 2 --read-only=false --dry-run")
	run(exitFailed, "namespace remove 9")
	run(0, "namespace list")
	run(0, "namespace pause 2 --limit 1s")
	c.end(t)
	text, err := os.ReadFile(filepath.Join(c.dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	var all []control.Operation
	for line := range strings.Lines(string(text)) {
		var o control.Operation
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if o.By.Process == nil || o.By.UID != os.Getuid() || o.By.PID == 0 || o.Time.IsZero() {
			t.Errorf("who: %s", line)
		}
		all = append(all, o)
	}
	if len(all) != 3 || all[0].Name != "setNamespace" || all[0].Result != "ok" || all[1].Name != "removeNamespace" || all[1].Result != "not-found" ||
		all[1].Error == "" || all[2].Name != "pauseNamespace" || !strings.HasSuffix(all[2].Path, "/namespaces/2/pause") {
		t.Fatalf("lines:\n%s", text)
	}
	if f := all[0].Changes[0].Fields; all[0].Count != 1 || len(f) != 1 || f[0].Name != "read-only" || f[0].From != "false" || f[0].To != "true" {
		t.Errorf("from and to: %+v", all[0])
	}
}
