package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// unforeseen has one fault of each kind.
const unforeseen = `version: 1
listeners:
  - id: 1
    address: ADDR
  - {id: 2, address: 192.0.2.77}
  - {id: 3, address: 0.0.0.0}
subsystems:
  - nqn: a
    state: DIR/damaged
    hosts:
      - {nqn: h1, key-file: DIR/nokey}
      - nqn: h2
        key-file: ${NVMEOF_NO_SUCH}/key
    namespaces:
      - {nsid: 1, file: {path: DIR/good}, reservations: DIR/noresv}
      - {nsid: 2, file: {path: DIR/none}}
      - {nsid: 3, file: {path: DIR/new, size: 1MiB}}
      - {nsid: 4, file: {path: DIR/no/new, size: 1MiB}}
      - {nsid: 5, file: {path: DIR/empty}}
      - {nsid: 6, file: {path: DIR/small}}
      - {nsid: 7, file: {path: DIR/served}}
      - {nsid: 8, file: {path: DIR/good/x, size: 1MiB}}
      - {nsid: 9, memory: {size: 1MiB}, reservations: DIR/resv}
      - {nsid: 10, block: {path: DIR/blk}}
      - {nsid: 11, file: {path: DIR/large, size: 1024TiB}}
      - {nsid: 12, file: {path: DIR/thin, size: 1024TiB, thin: true}}
`

// TestForesee: faults of a start are reported in advance, without changes to anything.
func TestForesee(t *testing.T) {
	r := newRig(t)
	for name, size := range map[string]int{"good": 4096, "empty": 0, "small": 100, "served": 4096, "resv": 7} {
		r.write(name, make([]byte, size))
	}
	r.write("damaged", []byte("rubbish"))
	served, err := file.Open(r.dir+"/served", file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	doc := r.doc(unforeseen)
	before, _ := os.ReadDir(r.dir)
	var got []string
	for _, p := range Foresee(t.Context(), doc, "", os.Getenv) {
		got = append(got, p.String())
	}
	for i, want := range []string{
		"state: ", "hosts[0].key-file: open", "hosts[1].key-file: ", "namespaces[1]: ", "namespaces[3]: ", "namespaces[4]: ", "namespaces[5]: ", "namespaces[6]: ",
		"namespaces[7]: ", "namespaces[8].reservations: ", "namespaces[9]: ", "namespaces[10]: ",
	} {
		if i++; i >= len(got) || !strings.HasPrefix(got[i], "subsystems[0]."+want) {
			t.Errorf("%d is not %q:\n%s", i, want, strings.Join(got, "\n"))
		}
	}
	for i, want := range map[int]string{0: "listeners[1].address: 192.0.2.77 is not an address of this machine now", 1: "counters", 4: "no such file",
		6: "less than one block", 8: "in use by this process", 10: "reservations", 12: "bytes are free"} {
		if i < len(got) && !strings.Contains(got[i], want) {
			t.Errorf("no %q in %s", want, got[i])
		}
	}
	if len(got) != 13 {
		t.Errorf("%d are reported:\n%s", len(got), strings.Join(got, "\n"))
	}
	after, _ := os.ReadDir(r.dir)
	if len(after) != len(before) {
		t.Errorf("files were made: %v, before %v", after, before)
	}
	if info, _ := os.Stat(filepath.Join(r.dir, "empty")); info.Size() != 0 {
		t.Error("a file was changed")
	}
}

// TestForeseeLost: a file that had more bytes according to the target's notes is reported, as a start would wait
// for it.
func TestForeseeLost(t *testing.T) {
	const text = "        file:\n          path: DIR/disk\n          size: 1MiB\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	foreseen := func() string {
		t.Helper()
		doc, _, err := config.Parse("test", []byte("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n"+strings.ReplaceAll(text, "DIR", dir)))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range Foresee(t.Context(), doc, filepath.Join(dir, "state", "files"), os.Getenv) {
			all = append(all, p.Text)
		}
		return strings.Join(all, "\n")
	}
	if found := foreseen(); found != "" {
		t.Errorf("before the first start: %s", found)
	}
	begin(t, dir, text, nil)
	if found := foreseen(); found != "" {
		t.Errorf("as it was: %s", found)
	}
	for name, lose := range map[string]func() error{
		"shorter": func() error { return os.Truncate(path, 512<<10) },
		"empty":   func() error { return os.Truncate(path, 0) },
		"missing": func() error { return os.Remove(path) },
	} {
		if err := errors.Join(os.WriteFile(path, make([]byte, 1<<20), 0o600), lose()); err != nil {
			t.Fatal(err)
		}
		found := foreseen()
		if _, waits := begin(t, dir, text, nil); found == "" || waits != found {
			t.Errorf("%s: foreseen is %q, and it waits for %q", name, found, waits)
		}
	}
}

// TestForeseeHung: each file that does not answer is reported.
func TestForeseeHung(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pipe("pipe")
	r.pipe("resv")
	doc := r.doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - {nsid: 1, file: {path: DIR/none}}\n" +
		"  - nqn: b\n    state: DIR/pipe\n    namespaces:\n      - {nsid: 1, memory: {size: 1MiB}, reservations: DIR/resv}\n")
	began := time.Now()
	var all []string
	for _, p := range foresee(t.Context(), doc, "", os.Getenv, time.Second) {
		all = append(all, p.String())
	}
	for i, want := range []string{"no such file", "state: DIR/pipe has not answered since", "reservations: DIR/resv has not answered since"} {
		if want = strings.Replace(want, "DIR", r.dir, 1); i >= len(all) || !strings.Contains(all[i], want) {
			t.Errorf("%d is not %q:\n%s", i, want, strings.Join(all, "\n"))
		}
	}
	if took := time.Since(began); len(all) != 3 || took > 4*time.Second {
		t.Errorf("%d are reported after %v", len(all), took)
	}
}
