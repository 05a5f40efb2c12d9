package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// socketOf returns the control socket of a target of flags.
func (s *testTarget) socketOf(socket string) string {
	return strings.TrimSuffix(socket, ".sock") + "-" + s.addr + ":4420.sock"
}

// ownSocket gives the commands of a test a default socket of their own, with a short path.
func ownSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "target.sock")
	setenv(t, "NVMEOF_SOCKET", socket)
	return socket
}

// TestFlagsAreADocument checks that a target of flags can be changed like a target of a file, and that the result can
// be saved as a file.
func TestFlagsAreADocument(t *testing.T) {
	socket := ownSocket(t)
	dir := t.TempDir()
	disk, saved := filepath.Join(dir, "disk.img"), filepath.Join(dir, "target.yaml")
	s := startTarget(t, "--export", "mem:1MiB", "--export", disk+",size=2m", "--allow-any-host", "--rcvbuf", "1m")
	s.out.await(t, "controlled at "+s.socketOf(socket)+"\n")
	run := func(line string, code int, texts ...string) outcome {
		t.Helper()
		return command(t, words(strings.NewReplacer("NQN", testNQN, "SAVED", saved, "DIR", dir).Replace(line))...).want(t, code, texts...)
	}
	run("ls", 0, "1 "+s.addr+":4420\n", "1 memory 1MiB", "2 file "+disk+" 2MiB", "any host")
	run("target export", 0, "receive-buffer: 1MiB", "shards: 1", "path: "+disk)
	run("ns add 3 -n NQN --memory 4MiB --save", exitFailed, "there is no file to save to: name one, as in --save FILE")
	run("ns add 3 -n NQN --memory 4MiB --save SAVED", 0, "add namespace 3", "saved")
	run("list -t rdma -a "+s.addr, 0, "4.19  MB")
	run("ns set 2 -n NQN --size 4m --save", 0, "file.size 2MiB -> 4MiB", "saved")
	run("target check SAVED", 0, "is valid: 1 listener(s), 1 subsystem(s), 3 namespace(s)")
	run("target diff SAVED", 0)
	run("target save DIR/other.json", 0, "saved to ", "other.json\n")
	run("target diff SAVED DIR/other.json", 0)
	run("host add h1 -n NQN --save=DIR/other.json", 0, "saved")
	run("host add h2 -n NQN --save DIR/other.json --dry-run", 0, "would add host h2")
	t.Chdir(dir)
	run("host add h2 --save copy -n NQN", 0, "saved")
	run("host remove --save=copy h2 -n NQN", 0, "saved")
	run("target apply --save applied copy", 0, "nothing to change", "saved")
	run("target diff copy applied", 0)
	run("host add --save h2 -n NQN", 0, "add host h2", "saved") // in the file to which it was saved
	run("host remove --save h2 -n NQN", 0, "remove host h2", "saved")
	run("host add h2 --save copy more -n NQN", exitUsage, "takes ")
	if err := os.WriteFile(filepath.Join(dir, "third.yaml"), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("host add h2 -n NQN --save DIR/third.yaml", exitFailed, "third.yaml exists and describes another target")
	run("listener add 2 "+loopbackAddress(), 0, "add listener 2")
	before := run("id-ns -t rdma -a "+s.addr+" -n NQN --namespace-id 2", 0).out
	s.end(t)
	if _, err := os.Stat(s.socketOf(socket)); err == nil {
		t.Error("the socket is left over")
	}
	c := &configured{dir: dir, file: saved, testTarget: &testTarget{addr: s.addr}}
	c.start(t)
	c.out.await(t, "nvme connect -t rdma -a "+s.addr)
	if after := run("id-ns -t rdma -a "+s.addr+" -n NQN --namespace-id 2", 0).out; after != before {
		t.Errorf("the namespace was\n%s\nand is\n%s", before, after)
	}
}

// TestTargetsBesideEachOther checks that each target has a control socket, and that ls lists them.
func TestTargetsBesideEachOther(t *testing.T) {
	socket := ownSocket(t)
	first := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	command(t, "ls").want(t, 0, "1 memory 1MiB")
	second := startTarget(t, "--export", "mem:2MiB", "--allow-any-host")
	both := []string{"2 targets run here, and none at " + socket}
	for _, s := range []*testTarget{first, second} {
		s.out.await(t, "controlled at "+s.socketOf(socket)+"\n")
		both = append(both, fmt.Sprintf("--socket %s  (process %d, %s, %s:4420)", s.socketOf(socket), os.Getpid(), testNQN, s.addr))
	}
	for _, line := range []string{"ls", "ns list -n " + testNQN, "target export"} {
		command(t, words(line)...).want(t, exitUsage, both...)
	}
	if o := command(t, "ls", "--socket", second.socketOf(socket)).want(t, 0, "1 memory 2MiB"); o.errOut != "" {
		t.Errorf("ls says of the target with this socket\n%s", o.errOut)
	}

	c := &configured{dir: t.TempDir(), testTarget: &testTarget{addr: loopbackAddress()}}
	c.file = c.write(t, "target.yaml", testConfig)
	c.start(t) // it has the default socket, and is the default target
	c.out.await(t, "controlled at "+socket)
	o := command(t, "ls").want(t, 0, "2 file ")
	for _, s := range []*testTarget{first, second} {
		if want := fmt.Sprintf("nvmeof ls --socket %s  (process %d, %s, %s:4420)", s.socketOf(socket), os.Getpid(), testNQN, s.addr); !strings.Contains(o.errOut, want) {
			t.Errorf("ls says\n%swithout %s", o.errOut, want)
		}
	}
	command(t, "target", "--config", c.file).want(t, exitFailed, "another target uses "+socket)
	command(t, "target", "--listen", loopbackAddress(), "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--socket", socket).
		want(t, exitFailed, "another target uses "+socket)
}

// TestSocketOfAnOrdinaryUser checks that if the default directory is not writable another one is used, which commands
// find, and that without any the target is served all the same.
func TestSocketOfAnOrdinaryUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("NVMEOF_SOCKET", "/proc/none/target.sock")
	t.Setenv("TMPDIR", dir)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	s.out.await(t, fmt.Sprintf("controlled at %s/nvmeof-%d/target-%s:4420.sock\n", dir, os.Getuid(), s.addr))
	command(t, "ls").want(t, 0, "1 memory 1MiB")
	s.end(t)
	t.Setenv("TMPDIR", "/proc/none")
	s = startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	if !strings.Contains(s.errOut.String(), "warning: this target cannot be controlled: ") {
		t.Errorf("it says\n%s", s.errOut)
	}
	command(t, "ls").want(t, exitConnection, "no target responds at /proc/none/target.sock")
	s.end(t)
	s = startTarget(t, "--export", "mem:1MiB", "--allow-any-host", "--socket", "none")
	if strings.Contains(s.errOut.String()+s.out.String(), "controlled") {
		t.Errorf("it says\n%s%s", s.errOut, s.out)
	}
}

// TestNameOfExport checks that a file named relative to the working directory keeps its identity for hosts.
func TestNameOfExport(t *testing.T) {
	ownSocket(t)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("disk.img", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	want := config.DefaultUUID(testNQN, 1, "disk.img", nil)
	s := startTarget(t, "--export", "disk.img", "--export", "new.img,size=1m", "--allow-any-host")
	id := func(nsid string) string {
		return command(t, s.at("id-ns", "-n", testNQN, "--namespace-id", nsid)...).want(t, 0).out
	}
	if got := id("1"); !strings.Contains(got, "nguid   : "+strings.ReplaceAll(want.String(), "-", "")) {
		t.Errorf("the namespace is not %v:\n%s", want, got)
	}
	created, first := id("2"), s.addr
	command(t, "target", "save", "target.yaml").want(t, 0)
	command(t, "ns", "show", "1", "-n", testNQN).want(t, 0, "uuid: "+want.String(), "path: "+dir+"/disk.img")
	s.end(t)
	s = startTarget(t, "--export", "disk.img", "--export", "new.img", "--allow-any-host")
	if got := id("2"); got != created {
		t.Errorf("the file that the target created was\n%s\nand is\n%s", created, got)
	}
	s.end(t)
	s = &testTarget{addr: first}
	c := &configured{dir: dir, file: filepath.Join(dir, "target.yaml"), testTarget: s}
	c.start(t)
	c.out.await(t, "nvme connect")
	if got := id("2"); got != created {
		t.Errorf("the file that the target created was\n%s\nand is from the file that was saved\n%s", created, got)
	}
}

// TestNoPlaceInFlags checks that an error in a flag has no line and column, since they would refer to a text that the
// user has not written.
func TestNoPlaceInFlags(t *testing.T) {
	ownSocket(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	defer s.end(t)
	for line, text := range map[string]string{
		"ns add 4 --file disk.img": "file.path: path disk.img is relative; give an absolute path",
		"ns add 4 --memory lots":   "memory.size: size lots: write it as",
		"ns add 0 --memory 1MiB":   "nsid: 0 is too small",
	} {
		if o := command(t, append(words(line), "-n", testNQN)...); o.code() != exitUsage || !strings.HasPrefix(o.err.Error(), text) {
			t.Errorf("%s: %v", line, o.err)
		}
	}
}

// TestNoPlaceForSocket checks that if the requested control socket cannot be created, the error names it and the
// remedy.
func TestNoPlaceForSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file + "/x.sock", file + "/folder/x.sock"} {
		command(t, "target", "--listen", loopbackAddress(), "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--socket", path).
			want(t, exitFailed, "control socket: "+path+" cannot be created: not a directory: give a path in a directory that user")
	}
}

// TestKeysAreReread checks that a target of flags rereads changed keys on SIGHUP.
func TestKeysAreReread(t *testing.T) {
	beside(t)
	ownSocket(t)
	file, key := writeKey(t, "host.key", 0o600)
	addr := loopbackAddress()
	s := startSeparate(t, "target", "--listen", addr, "--nqn", testNQN, "--shards", "1", "--export", "mem:1MiB", "--allow-host", keyedHost+",dhchap-key-file="+file)
	s.out.await(t, "nvme connect")
	at := []string{"id-ns", "-t", "rdma", "-a", addr, "-n", testNQN, "-q", keyedHost, "-S"}
	command(t, append(at, key)...).want(t, 0)
	other, otherKey := writeKey(t, "other.key", 0o600)
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	s.signal(t, unix.SIGHUP)
	s.errOut.await(t, "keys were read again")
	command(t, append(at, key)...).want(t, exitConnection, "refuses")
	command(t, append(at, otherKey)...).want(t, 0)
	command(t, "key", "list").want(t, 0, keyedHost, file)
}

// TestAuditIsRotated checks that a target of flags reopens the file of its audit on SIGHUP, and continues.
func TestAuditIsRotated(t *testing.T) {
	beside(t)
	ownSocket(t)
	file := filepath.Join(t.TempDir(), "audit")
	s := startSeparate(t, "target", "--listen", loopbackAddress(), "--nqn", testNQN, "--shards", "1", "--export", "mem:1MiB", "--allow-any-host", "--audit", file)
	s.out.await(t, "nvme connect")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	s.signal(t, unix.SIGHUP)
	s.errOut.await(t, "keys were read again")
	command(t, "namespace", "set", "1", "-n", testNQN, "--read-only").want(t, 0)
	s.signal(t, unix.SIGTERM)
	s.wantOrderly(t)
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "setNamespace") {
		t.Errorf("the new file: %s, %v", text, err)
	}
}
