package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
)

const testNQN = "nqn.2026-11.org.example:disk"

// output collects the output of a command, and can be read while the command runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen chan struct{} // receives a value with each write
}

func newOutput() *output { return &output{seen: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.seen <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output contains a text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.seen:
		case <-limit:
			t.Fatalf("no %q in the output:\n%s", text, o)
		}
	}
}

// outcome is the result of a command line.
type outcome struct {
	out, errOut string
	err         error
}

func command(t *testing.T, args ...string) outcome {
	t.Helper()
	return commandIn(t.Context(), t, nil, args...)
}

// commandIn is command with standard input, until ctx ends.
func commandIn(ctx context.Context, t *testing.T, in []byte, args ...string) outcome {
	t.Helper()
	root := newRootFor(args, nil)
	if env := environment(t); env != nil {
		within, leave := enter(root, env, args)
		if within == nil {
			return separately(ctx, t, in, args...)
		}
		defer leave()
		args = within
	}
	var out, errOut bytes.Buffer
	root.SetIn(bytes.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := execute(ctx, root, args)
	return outcome{out.String(), errOut.String(), err}
}

// wantOne checks that the output contains one of several texts.
func (o outcome) wantOne(t *testing.T, texts ...string) {
	t.Helper()
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(o.out, text) }) {
		t.Errorf("none of %q in:\n%s", texts, o.out)
	}
}

// code returns the exit code, of a process or of a command in this one.
func (o outcome) code() int {
	var ended *exec.ExitError
	if errors.As(o.err, &ended) {
		return ended.ExitCode()
	}
	return exitCode(o.err)
}

func (o outcome) want(t *testing.T, code int, texts ...string) outcome {
	t.Helper()
	if got := o.code(); got != code {
		t.Fatalf("exit code %d, want %d: %v\n%s%s", got, code, o.err, o.out, o.errOut)
	}
	all := o.out + o.errOut + fmt.Sprint(o.err)
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("no %q in:\n%s", text, all)
		}
	}
	return o
}

// testTarget is a running target command.
type testTarget struct {
	addr   string
	second string // another address, for targets of a file
	out    *output
	errOut *output
	stop   context.CancelFunc
	ended  chan error
}

// startTarget runs the target command at an address of its own.
func startTarget(t *testing.T, args ...string) *testTarget {
	t.Helper()
	setenv(t, "XDG_CONFIG_HOME", t.TempDir()) // this host's identity
	s := &testTarget{addr: loopbackAddress(), out: newOutput(), errOut: newOutput()}
	s.stop, s.ended = begin(t, s.out, s.errOut, append([]string{"target", "--listen", s.addr, "--nqn", testNQN, "--shards", "1", "--polling", "never"}, args...)...)
	t.Cleanup(func() { s.end(t) })
	s.out.await(t, "nvme connect")
	return s
}

// end stops the target like SIGTERM, and checks that it ends without an error.
func (s *testTarget) end(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			t.Errorf("the target ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the target does not end")
	}
}

// at returns a command line for the target.
func (s *testTarget) at(command string, args ...string) []string {
	return append([]string{command, "-t", "rdma", "-a", s.addr}, args...)
}

// TestCommands runs the commands on one target.
func TestCommands(t *testing.T) {
	s := startTarget(t, "--export", "mem:16MiB", "--export", "mem:8MiB,bs=4096", "--allow-any-host")
	if want := fmt.Sprintf("nvme connect -t rdma -a %s -s 4420 -n %s\n", s.addr, testNQN); !strings.HasSuffix(s.out.String(), want) {
		t.Errorf("target says:\n%s\nwithout %s", s.out, want)
	}
	s.errOut.await(t, "warning: --allow-any-host")
	t.Run("discover", func(t *testing.T) {
		command(t, s.at("discover")...).want(t, 0, "Discovery Log Number of Records 2", "subnqn:  "+testNQN+"\ntraddr:  "+s.addr+"\n")
		o := command(t, s.at("discover", "-o", "json")...).want(t, 0)
		var doc struct {
			Records []struct{ SubNQN, Traddr string }
		}
		if err := json.Unmarshal([]byte(o.out), &doc); err != nil || len(doc.Records) != 2 || doc.Records[1].SubNQN != testNQN {
			t.Errorf("%v:\n%s", err, o.out)
		}
	})
	t.Run("list", func(t *testing.T) {
		o := command(t, s.at("list")...).want(t, 0, "16.78  MB    512   B +  0 B", "8.39  MB      4 KiB +  0 B")
		if lines := strings.Count(o.out, "\n"); lines != 4 {
			t.Errorf("%d lines, want 4:\n%s", lines, o.out)
		}
		command(t, s.at("list", "-n", testNQN, "-o", "json")...).want(t, 0, `"PhysicalSize":16777216`, `"SectorSize":4096`)
	})
	t.Run("identify", func(t *testing.T) {
		command(t, s.at("id-ctrl", "-n", testNQN)...).want(t, 0, "subnqn    : "+testNQN+"\n", "mdts      : 8\n")
		command(t, s.at("id-ns", "-n", testNQN)...).want(t, 0, "NVME Identify Namespace 1:\n", "nsze    : 0x8000\n")
		command(t, s.at("id-ns", "-n", testNQN, "--namespace-id", "2", "-o", "json")...).want(t, 0, `"nsze":2048`)
		if o := command(t, s.at("id-ns", "-n", testNQN, "-b")...).want(t, 0); len(o.out) != 4096 {
			t.Errorf("raw data has %d bytes", len(o.out))
		}
		command(t, s.at("id-ns", "-n", testNQN, "--namespace-id", "7")...).want(t, exitUsage, "no such namespace; the subsystem has: 1, 2")
	})
	t.Run("read and write", s.readWrite)
	t.Run("bench", s.bench)
}

func (s *testTarget) readWrite(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 8192)
	rand.Read(data)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at := []string{"-n", testNQN, "--namespace-id", "1", "--start-block", "100", "--block-count", "15", "--data-size", "8192"}
	command(t, s.at("write", append(at, "--data", in)...)...).want(t, 0, "write: Success\n")
	command(t, s.at("read", append(at, "--data", out, "--latency")...)...).want(t, 0, "read: Success\n", " latency: read: ")
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back %d bytes, the same: %v, %v", len(got), bytes.Equal(got, data), err)
	}
	at[1+2] = "2" // the other namespace, in blocks of 4096, through pipes
	at[1+6] = "1"
	commandIn(t.Context(), t, data[:5000], s.at("write", append(at, "--force-unit-access")...)...).want(t, 0, "warning: the data has 5000 bytes, and ", "the rest becomes zeroes")
	o := command(t, s.at("read", at...)...).want(t, 0)
	if want := append(bytes.Clone(data[:5000]), make([]byte, 8192-5000)...); o.out != string(want) {
		t.Error("what was piped in does not come out, filled up with zeroes")
	}
	command(t, s.at("bench", "-n", testNQN, "--bs", "1000")...).want(t, exitUsage, "block size 1000 is not a multiple of the store's 512")
	command(t, s.at("read", "-n", testNQN)...).want(t, exitUsage, "data size not provided")
	separately(t.Context(), t, nil, s.at("read", "-n", testNQN, "-z", "512", "--start-block", "99999999")...).want(t, exitFailed, "LBA Out of Range")
}

// TestRefusals checks that a rejection says by whom, why, and what to do.
func TestRefusals(t *testing.T) {
	const friend = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
	s := startTarget(t, "--export", "mem:1MiB", "--allow-host", friend)
	command(t, s.at("id-ns", "-n", testNQN, "-q", friend)...).want(t, 0)
	const stranger = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555"
	command(t, s.at("id-ns", "-n", testNQN, "-q", stranger)...).want(t, exitConnection, s.addr, "does not allow this host", "--allow-host "+stranger)
	s.errOut.await(t, stranger)
	command(t, s.at("id-ns", "-n", "nqn.2026-11.org.example:dusk", "-q", friend)...).want(t, exitConnection, "no such subsystem", "Did you mean "+testNQN+"?")
	command(t, s.at("id-ns", "-n", "nqn.1999-01.com.example.other:x", "-q", friend)...).want(t, exitConnection, "There is: "+testNQN)
	command(t, s.at("id-ns", "-n", testNQN, "-q", friend, "-s", "4421")...).want(t, exitConnection, "the target refuses this host: nothing listens there; is the target running, and on that port?")
	command(t, s.at("id-ns", "-n", testNQN, "-w", s.addr)...).want(t, exitFailed, "already is the RoCEv2 endpoint of "+s.addr, "--host-traddr")
}

// TestProvider checks that a host reports the transport that it chose and the reason, and why it cannot use the
// configured one. No RDMA device has a loopback address.
func TestProvider(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host", "--provider", "auto")
	s.errOut.await(t, "softroce")
	o := command(t, s.at("id-ns", "-n", testNQN, "--provider", "auto")...).want(t, 0)
	if !strings.HasPrefix(o.errOut, "transport softroce: ") || strings.Contains(o.out, "transport") {
		t.Errorf("with --provider auto the host says:\n%s%s", o.errOut, o.out)
	}
	command(t, s.at("id-ns", "-n", testNQN, "--provider", "verbs")...).want(t, exitFailed, "verbs")
	for _, windows := range []string{"on", "off"} {
		command(t, s.at("bench", "-n", testNQN, "--windows", windows, "--rw", "write", "--verify", "--io_size", "1m")...).want(t, 0)
	}
}

// TestVersion checks that the program's version is printed by the usual flags and commands, and is the latest in
// CHANGELOG.md.
func TestVersion(t *testing.T) {
	want := command(t, "version").want(t, 0, "nvmeof "+release+", ", "; transports: softroce").out
	if got := command(t, "--version").want(t, 0).out; got != want {
		t.Errorf("--version says %s, and version %s", got, want)
	}
	var facts struct{ Version, Go string }
	if err := json.Unmarshal([]byte(command(t, "version", "-o", "json").want(t, 0).out), &facts); err != nil || facts.Version != release || facts.Go == "" {
		t.Errorf("version -o json: %+v, %v", facts, err)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindSubmatch(changes)
	if newest == nil || "v"+string(newest[1]) != release {
		t.Errorf("the newest version of CHANGELOG.md is %q, and the program's %s", newest, release)
	}
}

// TestOrigin checks what the program says about its source.
func TestOrigin(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for want, info := range map[string]debug.BuildInfo{
		"unknown commit":          {Main: debug.Module{Version: "(devel)"}},
		"module v0.1.0":           {Main: debug.Module{Version: "v0.1.0"}},
		"commit abc":              {Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "false")}},
		"commit abc with changes": {Settings: []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "true")}},
	} {
		if got := origin(&info); got != want {
			t.Errorf("origin is %q, want %q", got, want)
		}
	}
}

// TestIdentityIsKept checks that a host without a configured NQN has the same one each time.
func TestIdentityIsKept(t *testing.T) {
	if _, ok, _ := hostidentity.ReadIdentity(hostidentity.SystemIdentity); ok {
		t.Skip("this machine has names of its own in " + hostidentity.SystemIdentity)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var c fabricoptions.Connection
	first, err := c.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Identity(); err != nil || again != first {
		t.Errorf("identity %v, then %v, %v", first, again, err)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if other, err := c.Identity(); err != nil || other == first {
		t.Errorf("another user has the identity %v too, %v", other, err)
	}
	c.HostID = "nonsense"
	if _, err := c.Identity(); exitCode(err) != exitUsage {
		t.Errorf("--hostid nonsense: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for line, text := range map[string]string{
		"discover":               "--traddr is missing",
		"list -a 127.0.0.1 -Q x": "--queue-size x: want a whole number; see nvmeof list --help",
		"list -a 127.0.0.1 --queue-size 99999999999999999999":           "--queue-size 99999999999999999999: want a smaller number",
		"read -a 127.0.0.1 --tos 300":                                   "--tos 300: want a smaller number",
		"trace --count -1":                                              "--count -1: want a whole number",
		"target --takeover=maybe":                                       "--takeover=maybe: want always or upgrade; see nvmeof target --help",
		"top --interval 5":                                              "--interval 5: want a duration, as 5s or 250ms",
		"namespace set 1 -n x --read-only=default":                      "--read-only default: want true or false",
		"target --allow-any-host=yes":                                   "--allow-any-host yes: want true or false",
		"discover -a 127.0.0.1 -t tcp":                                  "only rdma is supported",
		"discover -a 127.0.0.1 -t verbs":                                "the RDMA transport is set with --provider verbs",
		"discover -a 127.0.0.1 --provider roce":                         "--provider roce: want softroce",
		"target --listen ::1 --nqn n --provider x --export mem:0":       "--transport x",
		"discover -a 127.0.0.1 --windows maybe":                         "want auto, on or off",
		"discover -a example..org":                                      "example..org is not an IP address, and its name cannot be resolved",
		"discover -a fe80::1":                                           "is link-local: name the interface that leads to it, as in fe80::1%eth0",
		"connect -a fe80::1 -n x":                                       "is link-local: name the interface that leads to it, as in fe80::1%eth0",
		"target --listen fe80::1 --nqn n --export mem:1MiB":             "is link-local: name its interface, as in fe80::1%eth0",
		"target --listen host.example --nqn n --export mem:1MiB":        "is no IP address: give an address of this machine, as ip address shows them",
		"target --listen ::1 --nqn n --export mem:1MB --allow-any-host": "1MB is not a multiple of the block size, 512 bytes",
		"target --listen 127.0.0.1:99999 --nqn n --export mem:1MiB":     "99999 is no port (1 to 65535)",
		"target --listen ::1 --nqn n --allow-any-host --export mem":     "memory needs a size, as in mem:1GiB; for a file of that name, write ./mem",
		"discover -a 127.0.0.1 -o yaml":                                 "want one of binary, json, normal",
		"discover -a 127.0.0.1 -o jsn":                                  "did you mean json?",
		"discover --tradr 127.0.0.1":                                    "did you mean traddr?",
		"discover -a 127.0.0.1 -S x":                                    "not of the form",
		"discover -a 127.0.0.1 extra":                                   "extra",
		"dicsover":                                                      "did you mean discover?; see nvmeof --help",
		"--foo":                                                         "unknown flag: --foo; see nvmeof --help",
		"discover --foo":                                                "; see nvmeof discover --help",
		"namespace add --dry-rum":                                       "did you mean dry-run?; see nvmeof namespace add --help",
		"namespace resize 3 --size 2GiB":                                `unknown command "resize" for "nvmeof namespace"; it is nvmeof namespace set NSID --size SIZE; see`,
		"target disks.yaml":                                             `to start a target with a configuration: --config disks.yaml`,
		"controller list --interval 0s":                                 "--interval 0s: rates are made from two readings: give a time between them, as 1s",
		"status":                                                        `unknown command "status" for "nvmeof"; it is nvmeof ls; see`,
		"namespace ad 3":                                                `unknown command "ad" for "nvmeof namespace"; did you mean add?; see nvmeof namespace --help`,
		"target aply x":                                                 `did you mean apply?; see nvmeof target --help`,
		"namespace add 1 2":                                             "takes NSID, but got 2 arguments; see nvmeof namespace add --help",
		"namespace add --memory 1MiB":                                   "NSID is missing; see nvmeof namespace add --help",
		"listener add 2":                                                "ADDRESS is missing; see nvmeof listener add --help",
		"target check":                                                  "FILE is missing; see nvmeof target check --help",
		"namespace add 3 4 --memory 1MiB -n n --save target.conf":       "takes NSID, but got 3 arguments; see",
		"namespace pause 1":                                             "--nqn is missing: the subsystem; see nvmeof subsystem list",
		"namespace resume 1":                                            "--nqn is missing: the subsystem; see nvmeof subsystem list",
		"namespace clear-fault 1":                                       "--nqn is missing: the subsystem; see nvmeof subsystem list",
		"reservation clear 1 --all":                                     "--nqn is missing: the subsystem; see nvmeof subsystem list",
		"key remove h":                                                  "--nqn is missing: the subsystem; see nvmeof subsystem list",
		"completion bsh":                                                "did you mean bash?; see nvmeof completion --help",
		"bench -a 127.0.0.1 --bs 4x":                                    "size 4x",
		"target --listen 127.0.0.1":                                     "--nqn is missing",
		"target --listen x --nqn n --export mem:1MiB":                   "--listen",
		"target --listen ::1 --nqn n --export mem:0":                    "--allow-host",
		"target --listen ::1 --nqn n":                                   "--export is missing",
		"target --listen ::1 --nqn n --export mem:1m,sice=2 --allow-any-host":                         "did you mean size?",
		"target --listen ::1 --nqn n --export /dev/no-such-disk,size=1m --allow-any-host":             "size is an option of files and images of Ceph, not of block devices",
		"target --listen ::1 --nqn n --export mem:1m --allow-any-host --rcvbuf 1x":                    "write it as 4096, 4k, 512MiB or 10GB",
		"target --listen ::1 --nqn n --export mem:1m --allow-any-host --shared-receives 99999":        "--shared-receives: 99999 is too large; at most 65536",
		"target --listen ::1 --nqn n --export /a --export /a --allow-any-host":                        "--export /a: /a is already exported by --export /a",
		"target --listen ::1 --nqn nqn.2014-08.org.nvmexpress.discovery --export /a --allow-any-host": "--nqn: nqn.2014-08.org.nvmexpress.discovery is the name of the discovery subsystem",
		"target --listen ::1 --nqn n --export mem:1000 --allow-any-host":                              "--export mem:1000: 1KB is not a multiple of the block size",
		"id-ctrl -a 127.0.0.1 -i 0 -n x":                                                              "--nr-io-queues 0",
		"id-ctrl -a 127.0.0.1 -i -5 -n x":                                                             "--nr-io-queues -5: 1 to ",
		"discover -a 127.0.0.1 --queue-size 1":                                                        "--queue-size 1: 2 to 1024",
		"target --listen 127.0.0.1 --nqn n --exprot x":                                                "did you mean export?",
		"id-ctrl -a 127.0.0.1 -Q 1 -n x":                                                              "--queue-size 1: 2 to 1024",
		"connect -a 127.0.0.1 -Q 1025 -n x":                                                           "--queue-size 1025: 2 to 1024",
	} {
		command(t, strings.Fields(line)...).want(t, exitUsage, text)
	}
}

// TestHelpTopics checks that help for a command that does not exist is an error, as the command itself would be.
func TestHelpTopics(t *testing.T) {
	for line, text := range map[string]string{
		"help bogus":        `unknown command "bogus" for "nvmeof"; see nvmeof --help`,
		"help target bogus": `unknown command "bogus" for "nvmeof target"; see nvmeof target --help`,
		"help namespace ad": "did you mean add?; see nvmeof namespace --help",
	} {
		command(t, strings.Fields(line)...).want(t, exitUsage, text)
	}
	for line, text := range map[string]string{"help": "Exit codes:", "help ns add": "Add a namespace", "help help": "any command",
		"help controller list": "two readings, --interval apart", "help namespace add": "1 to 32, with fence: lease 33 to 64"} {
		command(t, strings.Fields(line)...).want(t, 0, text)
	}
}

// TestMiscounted checks that missing or superfluous arguments and flags are named as in the usage.
func TestMiscounted(t *testing.T) {
	for line, text := range map[string]string{
		"iopolicy":                               "numa|round-robin|queue-depth|latency is missing; see nvmeof iopolicy --help",
		"iopolicy nvme-subsys0 round-robin":      "takes numa|round-robin|queue-depth|latency, but got 2 arguments; other values are given with -n NQN or -d nvme-subsys0; see",
		"ana-group set 1 9 optimized":            "takes GROUP, but got 3 arguments; --listener ID and --state STATE are missing; see",
		"ana-group set 1 optimized --listener 9": "takes GROUP, but got 2 arguments; --state STATE is missing; see",
		"ana-group set":                          "GROUP and --listener ID and --state STATE are missing; see",
		"gateway drain gw2 --wait -1s":           "--wait -1s: want a time, as 1m",
		"ana-group move 3 gw2":                   "takes GROUP, but got 2 arguments; --gateway NAME is missing; see",

		"namespace add 44 -n n --memory 1MiB --thin":              "--thin: options of files only, not of --memory: remove them, or give --file PATH",
		"namespace add 44 -n n --block /dev/x --size 1MiB --thin": "--size, --thin: options of files only, not of --block",
		"namespace add 44 -n n --rbd p/i --size 1GiB --thin":      "--thin: options of files only, not of --rbd",
		"namespace add 44 -n n --thin":                            "--thin: options of files, but --file PATH is missing",
	} {
		command(t, strings.Fields(line)...).want(t, exitUsage, text)
	}
}
