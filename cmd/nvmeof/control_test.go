package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A configured is a target that follows a file in a directory of its own.
type configured struct {
	*testTarget
	dir, file, socket string
}

const testConfig = `# one subsystem
version: 1
limits: {shards: 1, polling: never}
listeners:
  - id: 1
    address: ADDR
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces:
      - nsid: 1
        memory: {size: 16MiB}
      - nsid: 2
        file: {path: DIR/disk.img, size: 8MiB}
        block-size: 4096
`

// configure writes the file, and sets the target's socket as the default, so that commands find it.
func configure(t *testing.T, text string) *configured {
	t.Helper()
	c := &configured{dir: t.TempDir(), testTarget: &testTarget{addr: loopbackAddress(), second: loopbackAddress()}}
	c.file = c.write(t, "target.yaml", text)
	setenv(t, "XDG_CONFIG_HOME", t.TempDir())
	c.socket = filepath.Join(c.dir, "run", "s")
	setenv(t, "NVMEOF_SOCKET", c.socket)
	return c
}

// startConfigured runs target --config.
func startConfigured(t *testing.T, text string) *configured {
	t.Helper()
	c := configure(t, text)
	c.start(t)
	return c
}

// start runs target --config.
func (c *configured) start(t *testing.T) {
	t.Helper()
	c.out, c.errOut = newOutput(), newOutput()
	c.stop, c.ended = begin(t, c.out, c.errOut, "target", "--config", c.file)
	t.Cleanup(func() { c.end(t) })
}

// write writes a file in which ADDR, SECOND and DIR are replaced by those of the target.
func (c *configured) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	text = strings.NewReplacer("ADDR", c.addr, "SECOND", c.second, "DIR", c.dir).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func words(line string) []string { return strings.Fields(line) }

// TestConfigured runs the verbs on one target.
func TestConfigured(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	run := func(line string, code int, texts ...string) outcome {
		t.Helper()
		return command(t, words(strings.NewReplacer("ADDR", c.addr, "DIR", c.dir, "NQN", testNQN).Replace(line))...).want(t, code, texts...)
	}
	run("list -t rdma -a ADDR", 0, "16.78  MB    512   B +  0 B", "8.39  MB      4 KiB +  0 B")
	run("subsystem list", 0, testNQN, "any  ")
	run("subsystem show NQN", 0, "allow-any-host: true")
	run("namespace list -n NQN", 0, "DIR/disk.img  8MiB"[len("DIR"):], "4096")
	run("namespace list", exitUsage, "--nqn is missing")
	run("namespace add 3 -n NQN --memory 4MiB --ana-group 2", 0, "add namespace 3 of NQN"[:len("add namespace 3 of ")])
	run("ns set 3 -n NQN --read-only --dry-run", 0, "would change namespace 3", "read-only false -> true")
	run("ns set 3 -n NQN --read-only", 0, "read-only false -> true")
	run("ns set 3 -n NQN --read-only=false --ana-group default", 0, "ana-group 2 -> 1")
	run("ns set 3 -n NQN --memory 8MiB --dry-run", exitFailed, "would remove namespace 3", "its data is lost\nwould add namespace 3", "its data is lost; nothing was changed. If this is intended, use --force")
	run("ns set 3 -n NQN --block-size 4096", exitFailed, "its data is lost; nothing was changed. If this is intended, use --force")
	run("ns set 3 -n NQN --block-size 4096 --dry-run --force", 0, "would remove namespace 3", "its data is lost", "would add namespace 3")
	run("ns set 2 -n NQN --size 16MiB", 0, "file.size 8MiB -> 16MiB")
	run("list -t rdma -a ADDR", 0, "16.78  MB      4 KiB", "4.19  MB")
	run("ns pause 3 -n NQN --limit 2s", 0)
	run("ns resume 3 -n NQN", 0)
	run("ns clear-fault 2 -n NQN", exitFailed, "disk.img has not failed")
	run("ns clear-fault 9 -n NQN", exitFailed, "namespace 9 does not exist; there is 1")
	run("ns add 3 -n NQN --memory 1MiB", exitFailed, "namespace 3 exists already; change it with set")
	run("ns add four -n NQN --memory 1MiB", exitUsage, "want a number")
	run("ns add 4 -n NQN --file disk.img", exitUsage, "path disk.img is relative; give an absolute path")
	run("ns add 4 -n NQN --file DIR/none", exitFailed, "everything is as it was before")
	run("ns remove 3 -n NQN", 0, "remove namespace 3")
	run("listener add 2 ADDR:4421 --transport verbs", exitUsage, "has transport softroce, this one has verbs")
	run("listener add 2 ADDR:4421 --transport softroce", 0, "add listener 2")
	run("listener set 2 --transport default", 0, "is added again with another transport")
	run("ana-group set 1 --listener 2 --state inaccessible", 0, "state optimized -> inaccessible")
	run("ana-group list", 0, "4421  1       inaccessible")
	run("discover -t rdma -a ADDR", 0, "trsvcid: 4421")
	run("subsystem set NQN --listeners 1", 0, "listeners default -> [1]")
	run("listener set 2 --address ADDR:4422", 0, "is added again with another address")
	run("listener list", 0, "4422")
	run("host add h1 -n NQN --access read --namespace 2=none", 0, "add host h1")
	run("host list -n NQN", 0, "h1    read    2=none")
	run("host set h1 -n NQN --access default", 0, "access read -> write")
	key := c.write(t, "key", command(t, "key", "generate").want(t, 0, "DHHC-1:00:").out)
	run("key set h1 -n NQN --key-file "+key+" --hashes sha256,sha512", 0, "key-file default -> "+key)
	run("key list", 0, "h1", key)
	run("key reread", 0, "all keys were reread")
	run("key remove h1 -n NQN", 0, "key-file "+key+" -> default")
	run("referral add 192.0.2.9", 0, "add referral 192.0.2.9:4420")
	run("referral remove 192.0.2.9", 0, "remove referral 192.0.2.9:4420")
	run("subsystem set NQN --allow-any-host=false", 0)
	run("host remove h1 -n NQN", 0, "warning: ", "no host may connect")
	run("host add h2 -n NQN -o x", exitUsage)
	run("subsystem list -o yml", exitUsage, "want table, json or yaml; did you mean yaml?")
	run("subsystem remove nqn.2026-11.org.example:dusk", exitFailed, "did you mean "+testNQN+"?")
	run("ls", 0, "subsystems [1]", "    "+testNQN+" (listeners 1)", "2 file "+c.dir+"/disk.img 16MiB, ana-group 1")
	run("controller list --interval 1ms", 0, "SUBSYSTEM")
	run("controller remove 77 -n NQN", exitFailed, "controller 77 does not exist")
	run("ls -o json", 0, `"controllers": [`, `"listeners": [`, `"waiting": []`)
	run("listener remove 2", 0, "remove listener 2")
}

// TestCompletion checks that the shell completes names of the running target.
func TestCompletion(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	command(t, "__complete", "subsystem", "show", "").want(t, 0, testNQN)
	command(t, "__complete", "namespace", "list", "-n", "").want(t, 0, testNQN)
	command(t, "__complete", "namespace", "show", "-n", testNQN, "").want(t, 0, "1\n2\n")
	command(t, "completion", "bash").want(t, 0, "bash completion")
}

func TestSave(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	run := func(line string, code int, texts ...string) {
		t.Helper()
		command(t, words(line)...).want(t, code, texts...)
	}
	before, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(c.dir, "real.yaml")
	if err := errors.Join(os.Rename(c.file, real), os.Symlink("real.yaml", c.file), os.Chmod(real, 0o640)); err != nil {
		t.Fatal(err)
	}
	run("ns set 2 --size 16MiB --save -n "+testNQN, 0, "saved")
	run("target save", 0, "saved\n")
	if text, err := os.ReadFile(c.file); err != nil || string(text) != strings.Replace(string(before), "size: 8MiB", "size: 16MiB", 1) {
		t.Errorf("%v, saved\n%s", err, text)
	}
	if info, err := os.Lstat(c.file); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v: the link is gone", info, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v: the mode is another", info, err)
	}
	run("target check "+c.file, 0, "is valid: 1 listener(s), 1 subsystem(s), 2 namespace(s)")
	run("target diff "+c.file, 0)
}

// TestApplyUnderIO checks that applying a document does not disturb a working host, whether it succeeds or is undone.
func TestApplyUnderIO(t *testing.T) {
	beside(t)
	changes, runtime, rate := 2, "2s", "100"
	if *long {
		changes, runtime, rate = 10, "10s", "1000"
	}
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	ended := make(chan outcome, 1)
	go func() {
		ended <- command(t, c.at("bench", "-n", testNQN, "--rw", "randwrite", "--size", "8MiB", "--verify", "--time_based", "--runtime", runtime, "--iodepth", "8", "--rate_iops", rate)...)
	}()
	for !strings.Contains(command(t, "controller", "list", "-o", "json", "--interval", "1ms").want(t, 0).out, `"commands"`) {
		if t.Context().Err() != nil {
			t.Fatal("nobody connects")
		}
	}
	c.wantRates(t) // during the host's writes: later, on a slow machine, it only reads back
	base := testConfig
	more := strings.Replace(base, "  - nqn:", "  - nqn: nqn.2026-11.org.example:more\n    hosts: [{nqn: h}]\n    namespaces: [{nsid: 1, file: {path: DIR/more, size: 1MiB}}]\n  - nqn:", 1)
	grown := strings.Replace(more, "size: 8MiB", "size: 9MiB", 1)
	bad := strings.Replace(grown, "nsid: 1, file: {path: DIR/more", "nsid: 1, file: {path: DIR/folder", 1)
	if err := os.Mkdir(filepath.Join(c.dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range changes {
		command(t, "target", "apply", c.write(t, "more", more)).want(t, 0, "add subsystem nqn.2026-11.org.example:more")
		command(t, "target", "apply", c.write(t, "bad", bad)).want(t, exitFailed, "everything is as it was before")
		command(t, "target", "diff", c.write(t, "more", more), "-o", "json").want(t, 0, "[]")
		command(t, "target", "apply", "--dry-run", c.write(t, "base", base)).want(t, 0, "would remove subsystem nqn.2026-11.org.example:more")
		command(t, "target", "apply", c.write(t, "base", base)).want(t, 0, "remove subsystem nqn.2026-11.org.example:more")
	}
	command(t, "target", "apply", c.write(t, "grown", grown)).want(t, 0, "file.size 8MiB -> 9MiB")
	(<-ended).want(t, 0, "read back and compared: ")
}

// wantRates checks that the list of controllers shows the host's activity.
func (c *configured) wantRates(t *testing.T) {
	t.Helper()
	var list []administer.RatedController
	if err := json.Unmarshal([]byte(command(t, "controller", "list", "-o", "json", "--interval", "250ms").want(t, 0).out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Queues) == 0 || list[0].IOPS <= 0 || list[0].WrittenBytes <= 0 || list[0].Queues[0].Depth < 8 {
		t.Fatalf("controllers %+v", list)
	}
	id := fmt.Sprint(list[0].ID)
	command(t, "controller", "show", id).want(t, 0, "IN FLIGHT", testNQN)
	command(t, "controller", "show", "0"+id+"9").want(t, exitFailed, "does not exist")
}

// TestControllersComplete checks that the shell completes IDs of controllers, and then the subsystem.
func TestControllersComplete(t *testing.T) {
	beside(t)
	_, socket := startBusy(t)
	var list []administer.RatedController
	for len(list) == 0 {
		if err := json.Unmarshal([]byte(command(t, "controller", "list", "-o", "json", "--socket", socket).want(t, 0).out), &list); err != nil || t.Context().Err() != nil {
			t.Fatal("nobody connects", err)
		}
	}
	id := fmt.Sprint(list[0].ID)
	command(t, "controller", "list", "-o", "yaml", "--socket", socket).want(t, 0, "- subsystem: "+testNQN+"\n  id: ", "\n  written-bytes-per-second: ")
	for _, verb := range []string{"show", "remove"} {
		command(t, "__complete", "controller", verb, "--socket", socket, "").want(t, 0, id+"\n:4")
		command(t, "__complete", "controller", verb, "--socket", socket, id, "-n", "").want(t, 0, testNQN+"\n:4")
	}
}

// TestConfigErrors checks that errors are found, with their position, before anything is started.
func TestConfigErrors(t *testing.T) {
	t.Setenv("NVMEOF_SOCKET", filepath.Join(t.TempDir(), "none"))
	c := &configured{dir: t.TempDir(), testTarget: &testTarget{addr: "127.99.1.1"}}
	bad := c.write(t, "bad.yaml", strings.Replace(testConfig, "size: 16MiB", "size: 16Mib", 1))
	for _, line := range []string{"target --config " + bad, "target check " + bad, "target apply " + bad, "target export --from " + bad} {
		command(t, words(line)...).want(t, exitUsage, bad+":12:24: subsystems[0].namespaces[0].memory.size: size 16Mib: write it as 4096, 4k, 512MiB or 10GB")
	}
	good := c.write(t, "good.yaml", testConfig)
	command(t, "target", "check", good).want(t, 0, "is valid", "warning: "+good+":9:21: ")
	command(t, "target", "--config", good, "--nqn", "x").want(t, exitUsage, "--config excludes --nqn")
	command(t, "target", "--config", "-").want(t, exitUsage, "want a file")
	commandIn(t.Context(), t, []byte("version: 1\nlisten: 1\n"), "target", "check", "-").want(t, exitUsage, "-:2:1: unknown field listen; did you mean listeners?")
	// A target starts with any document that check approves.
	for name, text := range map[string]string{
		"listeners is missing":   "version: 1\n",
		"listeners is missing: ": "version: 1\nlisteners: []\n",
	} {
		file := c.write(t, "wrong.yaml", text)
		command(t, "target", "--config", file).want(t, exitUsage, file+": "+name)
		command(t, "target", "check", file).want(t, exitUsage, file+": "+name)
	}
	command(t, "target", "--config", filepath.Join(c.dir, "none.yaml")).want(t, exitFailed, "no such file")
	command(t, "target", "apply", good).want(t, exitConnection, "no target responds at ")
	command(t, "ls").want(t, exitConnection, "check that it is running, and that this is its socket")
	command(t, "target", "diff", good, c.write(t, "other.yaml", strings.Replace(testConfig, "nsid: 1", "nsid: 5", 1))).
		want(t, 0, "remove namespace 1", "add namespace 5")
	if o := command(t, "target", "export", "--from", good, "--format", "json").want(t, 0); !json.Valid([]byte(o.out)) {
		t.Errorf("not JSON:\n%s", o.out)
	}
	if o := command(t, "target", "schema").want(t, 0); !json.Valid([]byte(o.out)) {
		t.Errorf("not JSON:\n%s", o.out)
	}
}

// TestNvmetcli converts from the kernel's target and back.
func TestNvmetcli(t *testing.T) {
	const sample = "../../nvmeof/config/testdata/nvmet.json"
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := strings.TrimSpace(command(t, "gen-dhchap-key").want(t, 0).out)
	changed := strings.NewReplacer("DHHC-1:00:aG9zdA==:", key, "DHHC-1:00:Y29udHJvbGxlcg==:", key).Replace(string(text))
	from, to, keys := filepath.Join(dir, "config.json"), filepath.Join(dir, "target.yaml"), filepath.Join(dir, "keys")
	if err := os.WriteFile(from, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the keys exist
		command(t, "target", "import", "--format", "nvmetcli", "--output", to, "--key-dir", keys, from).want(t, 0)
	}
	command(t, "target", "check", to).want(t, 0, "2 subsystem(s)")
	if o := command(t, "target", "export", "--from", to, "--format", "nvmetcli").want(t, 0); o.out != changed {
		t.Errorf("exported\n%s\nwant\n%s", o.out, changed)
	}
	entries, err := os.ReadDir(keys)
	if err != nil || len(entries) != 2 {
		t.Fatal(err, entries)
	}
	for _, e := range entries {
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if err := os.WriteFile(filepath.Join(keys, entries[0].Name()), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "target", "import", "--key-dir", keys, from).want(t, exitFailed, "already has another key")
	command(t, "target", "import", "--format", "spdk", from).want(t, exitUsage, "want nvmetcli")
	command(t, "target", "import", to).want(t, exitUsage, to+":1:1: not JSON")
}

// TestLateFile checks that a target starts without a file that does not exist yet, reports that, and serves the file
// when it exists.
func TestLateFile(t *testing.T) {
	beside(t)
	c := startConfigured(t, strings.Replace(testConfig, "file: {path: DIR/disk.img, size: 8MiB}", "file: {path: DIR/late.img}", 1))
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	c.out.await(t, "serving 1 namespace(s) of "+testNQN+"; 1 of 2 cannot be served yet\nwaiting: namespace 2 ("+c.dir+"/late.img): open store: ")
	c.errOut.await(t, "namespace waits for its store")
	command(t, "ls").want(t, 0, "WAITING: open store: open "+c.dir+"/late.img: no such file or directory")
	f, err := os.Create(filepath.Join(c.dir, "late.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 8 { // the file is copied there, which takes longer than the target's polling interval
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.errOut.await(t, "namespace is served, since its store is available")
	command(t, c.at("list")...).want(t, 0, "8.39  MB      4 KiB")
}

// TestSizeOfMemory checks the hint for a user who gives memory a size as for a file.
func TestSizeOfMemory(t *testing.T) {
	beside(t)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	command(t, words("namespace set 1 --size 8MiB -n "+testNQN)...).want(t, exitUsage, "namespace 1 is memory", "--memory SIZE")
}

// TestForeseenLoss checks that target check notices that a file has become shorter.
func TestForeseenLoss(t *testing.T) {
	beside(t)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	c.end(t)
	if err := os.Truncate(filepath.Join(c.dir, "disk.img"), 1<<20); err != nil {
		t.Fatal(err)
	}
	command(t, "target", "check", c.file).want(t, 0, "warning: ", "disk.img has 1048576 bytes, and had 8388608", "at a start the namespace waits")
}

// TestLateAddress checks that a target waits for an address that no interface has, and can be changed, used and
// stopped meanwhile.
func TestLateAddress(t *testing.T) {
	c := startConfigured(t, strings.Replace(testConfig, "ADDR", "192.0.2.77", 1))
	c.errOut.await(t, "listener waits for its address")
	c.out.await(t, "controlled at")
	command(t, "ls").want(t, 0, "1 192.0.2.77:4420, WAITING: ")
	command(t, "listener", "add", "2", c.addr).want(t, 0)
	command(t, c.at("list")...).want(t, 0, "8.39  MB      4 KiB")
	c.stop()
	if err := <-c.ended; err != nil {
		t.Errorf("the target ended with %v", err)
	}
	c.ended <- nil
}

// TestSocketIsFree checks that a second target with the same socket does not take it from the first.
func TestSocketIsFree(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	other := c.write(t, "other.yaml", strings.NewReplacer("ADDR", "127.98.3.7", "DIR/disk.img", "DIR/other.img").Replace(testConfig))
	command(t, "target", "--config", other).want(t, exitFailed, "another target uses "+filepath.Join(c.dir, "run", "s"))
	if err := control.NewClient(filepath.Join(c.dir, "run", "s")).Do(t.Context(), "GET", "/v1/status", nil, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestSetDefault checks that the value default resets what can be reset, and that a namespace can change its kind.
func TestSetDefault(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	for _, x := range []struct {
		line string
		code int
		want string
	}{
		{"host add h1 -n NQN --namespace 2=none", 0, "add host h1"},
		{"host set h1 -n NQN --namespace default", 0, "namespaces "},
		{"ns pause 4444 -n NQN", exitFailed, "namespace 4444 does not exist; there is 1, 2"},
		{"ns resume 1 -n nqn.none", exitFailed, "subsystem nqn.none does not exist; there is " + testNQN},
		{"ns set 2 -n NQN --engine threads --dry-run", 0, "with another file.engine"},
		{"ns set 1 -n NQN --size 1MiB", exitUsage, "--memory SIZE changes its size"},
		{"ns set 1 -n NQN --memory default", exitUsage, "nothing is exported"},
		{"ns set 1 -n NQN --memory default --file DIR/first --size 1MiB --dry-run", exitFailed, "its data is lost"},
		{"ns set 1 -n NQN --memory default --file DIR/first --size 1MiB --dry-run --force", 0, "would add namespace 1"},
	} {
		line := strings.NewReplacer("DIR", c.dir, "NQN", testNQN).Replace(x.line)
		command(t, words(line)...).want(t, x.code, x.want)
	}
}

// TestSetOfBlock checks that fields of both files and devices are set for the namespace's kind.
func TestSetOfBlock(t *testing.T) {
	c := startConfigured(t, strings.Replace(testConfig, "memory: {size: 16MiB}", "block: {path: /dev/nvmeof-is-not-there}", 1))
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	// The target would have to open the device again, which fails.
	command(t, "ns", "set", "1", "-n", testNQN, "--engine", "threads", "--buffered").want(t, exitFailed, "stat /dev/nvmeof-is-not-there")
	command(t, "ns", "set", "2", "-n", testNQN, "--block", "/dev/x", "--engine", "threads").want(t, exitUsage, "file and block exclude each other")
}
