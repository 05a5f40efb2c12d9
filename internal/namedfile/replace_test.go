package namedfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// is describes a file: mode, owner and group.
type is struct {
	mode     fs.FileMode
	uid, gid int
}

func look(t *testing.T, name string) is {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return is{info.Mode(), int(s.Uid), int(s.Gid)}
}

func replace(t *testing.T, name, text string, o Options) {
	t.Helper()
	if err := Replace(name, []byte(text), o); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != text {
		t.Errorf("%q, %v, want %q", got, err, text)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/new"
	replace(t, name, "one", Options{})
	if m := look(t, name).mode; m != 0o600 {
		t.Errorf("a new file has mode %v", m)
	}
	for _, mode := range []fs.FileMode{0o640, 0o644, 0o400} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		replace(t, name, mode.String(), Options{})
		if m := look(t, name).mode; m != mode {
			t.Errorf("mode %v became %v", mode, m)
		}
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	replace(t, name, "secret", Options{Secret: true})
	if m := look(t, name).mode; m != 0o600 {
		t.Errorf("a secret has mode %v", m)
	}
	if left, _ := filepath.Glob(dir + "/.*"); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}

// TestReplaceLink: relative and absolute links, of the file and of a folder, are kept, and a dangling link gets its
// file.
func TestReplaceLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/real", 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"relative": "real/a", "absolute": dir + "/real/b", "chain": "relative", "nowhere": "real/../real/c", "folder": "real"} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/real/a", nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"relative": "a", "absolute": "b", "chain": "a", "nowhere": "c", "folder/d": "d"} {
		replace(t, dir+"/"+name, name, Options{})
		if text, err := os.ReadFile(dir + "/real/" + file); err != nil || string(text) != name {
			t.Errorf("%s: the file has %q, %v", name, text, err)
		}
	}
	for _, link := range []string{"relative", "absolute", "chain", "nowhere", "folder"} {
		if look(t, dir+"/"+link).mode&fs.ModeSymlink == 0 {
			t.Errorf("link %s is gone", link)
		}
	}
	if m := look(t, dir+"/real/a").mode; m != 0o640 {
		t.Errorf("mode %v", m)
	}
	if err := os.Symlink("round", dir+"/round"); err != nil {
		t.Fatal(err)
	}
	if err := Replace(dir+"/round", nil, Options{}); err == nil {
		t.Error("a link to itself was followed")
	}
}

// TestStage: until Commit the file is unchanged, and Discard leaves nothing behind.
func TestStage(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir+"/f", "old")
	s, err := Stage(name, []byte("new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(name); string(text) != "old" {
		t.Errorf("%q before Commit", text)
	}
	s.Discard()
	s.Discard()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d entries after Discard", len(entries))
	}
	for _, bad := range []string{dir, dir + "/none/f", name + "/f"} {
		if _, err := Stage(bad, nil, Options{}); err == nil {
			t.Errorf("%s could be replaced", bad)
		}
	}
}

// TestReplaceSpecial: a file that is not regular is written to and stays what it is.
func TestReplaceSpecial(t *testing.T) {
	name := pipe(t)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Replace(name, []byte("text"), Options{}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := f.Read(b); string(b[:n]) != "text" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if err := Replace("/dev/null", []byte("text"), Options{}); err != nil {
		t.Error(err)
	}
}

const other = 12345 // a user and a group that do not exist

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("gives files to another user: go test -c ./internal/namedfile && sudo ./namedfile.test")
	}
}

func chown(t *testing.T, name string, id int) {
	t.Helper()
	if err := os.Lchown(name, id, id); err != nil {
		t.Fatal(err)
	}
}

// TestRootWrites: what root writes in a service's folder belongs to the service.
func TestRootWrites(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	replace(t, dir+"/of-root", "", Options{})
	if got := look(t, dir+"/of-root"); got != (is{0o600, 0, 0}) {
		t.Errorf("in root's folder %+v", got)
	}
	chown(t, dir, other)
	replace(t, dir+"/new", "", Options{})
	if got := look(t, dir+"/new"); got != (is{0o600, other, other}) {
		t.Errorf("a new file is %+v", got)
	}
	if err := os.WriteFile(dir+"/old", nil, 0o640); err != nil {
		t.Fatal(err)
	}
	chown(t, dir+"/old", other+1)
	replace(t, dir+"/old", "new", Options{})
	if got := look(t, dir+"/old"); got != (is{0o640, other + 1, other + 1}) {
		t.Errorf("the file of somebody is %+v", got)
	}
	if err := MakeFolder(dir + "/keys/of/hosts"); err != nil {
		t.Fatal(err)
	}
	if got := look(t, dir+"/keys/of/hosts"); got != (is{fs.ModeDir | 0o700, other, other}) {
		t.Errorf("a new folder is %+v", got)
	}
}

// TestRootFollows: a service cannot make root replace files that are not its own.
func TestRootFollows(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	system := write(t, dir+"/system", "old")
	its := write(t, dir+"/its", "old")
	chown(t, its, other)
	for link, to := range map[string]string{"bad": system, "good": its, "nowhere": dir + "/none", "roots": system} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
		if link != "roots" {
			chown(t, dir+"/"+link, other)
		}
	}
	for link, allowed := range map[string]bool{"bad": false, "good": true, "nowhere": false, "roots": true} {
		err := Replace(dir+"/"+link, []byte("new"), Options{})
		if allowed && err != nil || !allowed && (err == nil || !strings.Contains(err.Error(), "the path of the file itself")) {
			t.Errorf("%s: %v", link, err)
		}
	}
}

func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := MakeFolder(dir + "/a/b/"); err != nil {
			t.Fatal(err)
		}
	}
	if err := MakeFolder(write(t, dir+"/file", "") + "/c"); err == nil {
		t.Error("a folder in a file")
	}
}
