package namedfile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// killedVariable names the file that a process replaces when it is killed.
const killedVariable = "NVMEOF_NAMEDFILE_KILLED"

// TestKilled: what killed replacements have left behind is removed by the next one, which does not disturb replacements
// in progress.
func TestKilled(t *testing.T) {
	if name := os.Getenv(killedVariable); name != "" {
		for _, mode := range []os.FileMode{0o600, 0o400} { // two at a time
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Stage(name, []byte("killed"), Options{}); err != nil {
				t.Fatal(err)
			}
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	dir := t.TempDir()
	name := write(t, dir+"/f", "old")
	left := func() int {
		all, _ := filepath.Glob(dir + "/.f*")
		return len(all)
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killedVariable+"="+name)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%v\n%s", cmd.ProcessState, out)
		}
	}
	if n := left(); n != 2 {
		t.Errorf("%d files are left behind by kills of 2 replacements at a time", n)
	}
	under, err := Stage(name, []byte("new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 1 {
		t.Errorf("%d files are there for 1 replacement", n)
	}
	replace(t, name, "between", Options{})
	if err := under.Commit(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if n := left(); n != 0 {
		t.Errorf("%d files are left behind", n)
	}
}

// TestManyAtOnce: any number of concurrent replacements of a file succeed, each with its own content intact, and leave
// nothing behind.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir+"/f", "old")
	var staged []*Staged
	for i := range 2 * places {
		s, err := Stage(name, fmt.Appendf(nil, "%d", i), Options{})
		if err != nil {
			t.Fatal(err)
		}
		staged = append(staged, s)
	}
	for i, s := range staged {
		if err := s.Commit(); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(name); string(text) != fmt.Sprint(i) {
			t.Errorf("%q after %d", text, i)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := Replace(name, []byte("text"), Options{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, _ := filepath.Glob(dir + "/.f*"); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}

// TestForeignNames: what others put at the names for new content does not prevent a replacement, and is kept if it is
// not a file.
func TestForeignNames(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir+"/f", "old")
	victim := write(t, dir+"/victim", "untouched")
	if err := os.Symlink(victim, dir+"/.f.1.new"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/.f.2.new", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/.f.3.new", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/.f.4.new", "left")
	replace(t, name, "new", Options{})
	if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(dir + "/.f*"); len(left) != 3 {
		t.Errorf("%q stay", left)
	}
}
