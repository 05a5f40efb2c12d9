package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestDamagedReservations: the advice about a damaged file makes the namespace served. It does not wait again since
// the file existed before.
func TestDamagedReservations(t *testing.T) {
	t.Parallel()
	const text = "        memory:\n          size: 1MiB\n        reservations: DIR/resv\n"
	dir := t.TempDir()
	path, notes := filepath.Join(dir, "resv"), filepath.Join(dir, "state", "files")
	begin(t, dir, text, func(r *rig) {
		if err := r.stores.reservationFile(config.Path(path)).Save([]byte("rubbish")); err != nil {
			t.Error(err)
		}
	})
	if err := os.Truncate(path, 5); err != nil { // the first process has saved what it knows
		t.Fatal(err)
	}
	_, waits := begin(t, dir, text, nil)
	_, line, found := strings.Cut(waits, "or remove it if no host relies on a reservation: ")
	if !found {
		t.Fatalf("the namespace waits for %q", waits)
	}
	doc := (&rig{t: t, dir: dir}).doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n" + text)
	if found := Foresee(t.Context(), doc, notes, os.Getenv); len(found) != 1 || !strings.HasSuffix(waits, found[0].Text) {
		t.Errorf("foreseen is %v, and the namespace waits for %q", found, waits)
	}
	if err := asAdvised(path, line); err != nil {
		t.Fatal(err)
	}
	if _, waits := begin(t, dir, text, nil); waits != "" {
		t.Errorf("after what is advised the namespace waits for %q", waits)
	}
}
