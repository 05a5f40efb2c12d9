package control

import (
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestState: a document's state counts the starts of the target, and is free when that has
// ended.
func TestState(t *testing.T) {
	dir := t.TempDir()
	for _, cycles := range []string{`"power-cycles":1,`, `"power-cycles":2,`} {
		r := newRig(t)
		r.dir = dir
		doc := r.doc(strings.Replace(first, "  - nqn: a\n", "  - nqn: a\n    state: DIR/state\n", 1))
		r.apply(doc)
		text := func(want ...string) {
			t.Helper()
			b, err := os.ReadFile(dir + "/state")
			for _, w := range want {
				if err != nil || !strings.Contains(string(b), w) {
					t.Errorf("no %s in %s, %v", w, b, err)
				}
			}
		}
		text(cycles, `"running":true`)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		text(cycles, `"running":false`)
	}
	unlock, err := target.StateFile(dir + "/state").Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
