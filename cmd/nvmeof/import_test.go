package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestImportForService checks that files that an administrator imports into a service's directory are readable by the
// service, and by no other user who could not read them before.
func TestImportForService(t *testing.T) {
	const service = 12345
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "target.yaml"), filepath.Join(dir, "keys")
	if err := os.WriteFile(file, []byte("version: 1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		owner = service
		for _, name := range []string{dir, file} {
			if err := os.Chown(name, service, service); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func() {
		t.Helper()
		command(t, "target", "import", "--output", file, "--key-dir", keys, "../../nvmeof/config/testdata/nvmet.json").want(t, 0)
	}
	run()
	run() // the keys are the same
	command(t, "target", "export", "--from", file, "--output", filepath.Join(dir, "back.json"), "--format", "json").want(t, 0)
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "key-file: "+keys) {
		t.Errorf("%v\n%s", err, text)
	}
	want := map[string]fs.FileMode{file: 0o640, keys: fs.ModeDir | 0o700, filepath.Join(dir, "back.json"): 0o600}
	all, err := filepath.Glob(keys + "/*")
	if err != nil || len(all) != 2 {
		t.Errorf("%q, %v", all, err)
	}
	for _, name := range all {
		want[name] = 0o600
	}
	for name, mode := range want {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); info.Mode() != mode || int(s.Uid) != owner {
			t.Errorf("%s: mode %v of user %d, want %v of %d", name, info.Mode(), s.Uid, mode, owner)
		}
	}
	if err := os.WriteFile(all[0], []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "target", "import", "--output", file, "--key-dir", keys, "../../nvmeof/config/testdata/nvmet.json").want(t, exitFailed, "already has another key")
}
