package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestReportIsNotExported: a change does not export what the target writes lines to, by whatever name.
func TestReportIsNotExported(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, func(c *Config) { c.Settings.Audit.File = config.Path(filepath.Join(dir, "audit")) })
	r.dir = dir
	r.write("audit", make([]byte, 1<<16))
	if err := os.Link(dir+"/audit", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	const text = "version: 1\naudit: {file: DIR/audit}\nsubsystems:\n  - nqn: a\n    namespaces:\n      - {nsid: 1, file: {path: DIR/link}}\n"
	for _, o := range []Options{{DryRun: true}, {}} {
		_, err := r.Apply(r.doc(text), o)
		if err == nil || !strings.Contains(err.Error(), "link is the same file as "+dir+"/audit, which is that of audit.file; export another file") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestClashes finds one file under two names, whether it is there or not.
func TestClashes(t *testing.T) {
	r := newRig(t)
	r.write("disk", make([]byte, 4096))
	for name, of := range map[string]string{"hard": "disk", "resv": "disk"} {
		if err := os.Link(r.dir+"/"+of, r.dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(r.dir, r.dir+"/folder"); err != nil {
		t.Fatal(err)
	}
	doc := r.doc(`version: 1
events: {file: DIR/folder/state}
audit: {file: DIR/hard}
subsystems:
  - nqn: a
    state: DIR/state
    namespaces:
      - {nsid: 1, file: {path: DIR/disk}, reservations: DIR/resv}
      - {nsid: 2, memory: {size: 1MiB}, reservations: DIR/own}
`)
	var got []string
	for _, p := range Clashes(doc, r.dir+"/own") {
		got = append(got, strings.ReplaceAll(p.String(), r.dir, "DIR"))
	}
	want := []string{
		"subsystems[0].namespaces[0].reservations: DIR/resv is the same file as DIR/disk, which is that of subsystems[0].namespaces[0]; name another file",
		"subsystems[0].namespaces[1].reservations: DIR/own is that of the configuration itself; name another file",
		"events.file: DIR/folder/state is the same file as DIR/state, which is that of subsystems[0].state; name another file",
		"audit.file: DIR/hard is the same file as DIR/disk, which is that of subsystems[0].namespaces[0]; name another file",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
