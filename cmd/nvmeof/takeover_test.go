package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/takeover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// asTaker makes the test's executable ask to take over a target, and end or hang at a step.
const asTaker = "NVMEOF_TEST_TAKER"

// beTaker does so if the environment requests it.
func beTaker() {
	step := os.Getenv(asTaker)
	if step == "" {
		return
	}
	c, _, err := takeover.Ask(context.Background(), os.Getenv("NVMEOF_SOCKET"))
	if err == nil && step != "asked" {
		_, err = c.Take()
	}
	switch {
	case err != nil:
	case step == "refuses":
		err = c.Refuse(errors.New("the test does not want to"))
	case step == "hangs":
		time.Sleep(time.Hour)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startVerified writes to a namespace and verifies the data for some time; in the short form at a low rate, since
// TestTakeoverState has commands in flight at all times.
func startVerified(t *testing.T, addr, nsid string, runtime time.Duration) *separate {
	t.Helper()
	rate := "50"
	if *long {
		rate = "0"
	}
	return startSeparate(t, "bench", "--rate_iops", rate, "-t", "rdma", "-a", addr, "-n", testNQN, "--namespace-id", nsid, "--rw", "randrw", "--bs", "4k", "--iodepth", "8",
		"--size", "4m", "--time_based", "--runtime", fmt.Sprint(runtime.Seconds()), "--verify", "crc32c", "--output-format", "json")
}

// stall waits until the load has ended, and returns the longest duration of a command.
func (s *separate) stall(t *testing.T) time.Duration {
	t.Helper()
	s.await(t, time.Minute)
	type side struct {
		Clat struct {
			Max float64 `json:"max"`
		} `json:"clat_ns"`
	}
	var report struct {
		Jobs []struct {
			Error       int
			Read, Write side
		}
	}
	if err := json.Unmarshal([]byte(s.out.String()), &report); err != nil || len(report.Jobs) != 1 || report.Jobs[0].Error != 0 {
		t.Fatalf("%v in %s\n%s", err, s.out, s.errOut)
	}
	return time.Duration(max(report.Jobs[0].Read.Clat.Max, report.Jobs[0].Write.Clat.Max))
}

// paused returns for how long no command could start, according to the target that was taken over.
func (s *separate) paused(t *testing.T) time.Duration {
	t.Helper()
	for line := range strings.Lines(s.errOut.String()) {
		var l struct{ Pause float64 }
		if strings.Contains(line, "another process has taken over") && json.Unmarshal([]byte(line), &l) == nil && l.Pause > 0 {
			return time.Duration(l.Pause * float64(time.Second))
		}
	}
	t.Fatalf("it does not say for how long:\n%s", s.errOut)
	return 0
}

// await waits until a process has ended without an error.
func (s *separate) await(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, s.out, s.errOut)
		}
	case <-time.After(limit):
		t.Fatalf("it does not end; it said %s%s", s.out, s.errOut)
	}
}

// awaitEnd waits until a process that was to take over has ended: the continuing one kills it if it is slow.
func (s *separate) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-time.After(20 * time.Second):
		t.Fatalf("it does not end; it said %s%s", s.out, s.errOut)
	}
}

// TestTakeover has one target after another take over, while hosts read and write a file and memory. No connection is
// lost: without paths to reconnect, bench would fail.
func TestTakeover(t *testing.T) {
	besideShort(t)
	text, times, runtime := testConfig, 2, time.Second
	if *long { // of targets that poll
		text, times, runtime = strings.Replace(testConfig, ", polling: never", "", 1), 50, 40*time.Second
	}
	c := configure(t, text)
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	loads := []*separate{startVerified(t, c.addr, "1", runtime), startVerified(t, c.addr, "2", runtime)}
	idle, err := net.Dial("unix", c.socket) // a client that sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	began, pause := time.Now(), time.Duration(0)
	command(t, words("namespace add 3 -n "+testNQN+" --memory 1MiB")...).want(t, 0) // it is not in the file
	for i := range times {
		time.Sleep(time.Until(began.Add(runtime * time.Duration(i+1) / time.Duration(times+2))))
		next := startSeparate(t, "target", "--config", c.file, "--takeover")
		next.out.await(t, "nvme connect")
		s.await(t, 10*time.Second)
		pause = max(pause, s.paused(t))
		s = next
	}
	if time.Since(began) > runtime {
		t.Logf("the machine is slow: %d takeovers took %v", times, time.Since(began))
	}
	longest := time.Duration(0)
	for _, l := range loads {
		longest = max(longest, l.stall(t))
	}
	t.Logf("%d takeovers: commands waited %v at most, and one took %v at most, with whatever else the machine did", times, pause, longest)
	if pause > 4*time.Second {
		t.Errorf("commands waited %v, after which connections are lost", pause)
	}
	if *long && pause > 200*time.Millisecond {
		t.Error("that is more than 200 ms")
	}
	command(t, words("ns list -n "+testNQN)...).want(t, 0, "memory", "1MiB")
	if n := strings.Count(s.errOut.String(), "host connected"); n > 0 {
		t.Errorf("%d hosts have connected to the last target:\n%s", n, s.errOut)
	}
	s.signal(t, unix.SIGTERM)
	s.await(t, 10*time.Second)
}

// TestTakeoverFails has processes ask to take over and then end, refuse or hang: the target continues with its hosts.
func TestTakeoverFails(t *testing.T) {
	besideShort(t)
	c := configure(t, testConfig)
	steps, runtime := []string{"asked", "taken", "refuses"}, 2*time.Second
	if *long {
		steps, runtime = append(steps, "hangs"), 20*time.Second
	}
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	load := startVerified(t, c.addr, "1", runtime)
	for _, step := range steps {
		time.Sleep(300 * time.Millisecond)
		setenv(t, asTaker, step)
		taker := startSeparate(t, "target")
		setenv(t, asTaker, "")
		taker.awaitEnd(t)
	}
	t.Logf("a command took %v at most", load.stall(t))
	if n := strings.Count(s.errOut.String(), "this one continues"); n != len(steps)-1 {
		t.Errorf("it went on %d times of %d:\n%s", n, len(steps)-1, s.errOut)
	}
	command(t, "ls").want(t, 0, filepath.Base("disk.img"))
	s.signal(t, unix.SIGTERM)
	s.await(t, 10*time.Second)
}

// TestTakeoverFailsTwice checks that a process that continues after a failed takeover with neither its hosts nor its
// memory still has its TCP sockets: in a sandbox it could not create new ones.
func TestTakeoverFailsTwice(t *testing.T) {
	d, out, errOut := flagDaemon(t, &targetcommand.Flags{Listen: []string{loopbackAddress()}, Exports: []string{"mem:1MiB"}, Transport: provider.Softroce})
	at := netip.MustParseAddrPort(freePort())
	d.Document.Metrics.Listen = config.HTTPAddress{AddrPort: at}
	opened := 0
	startDaemon(t, d, targetcommand.Machine{Device: func(transport string, a netip.Addr, cfg provider.Config) (rdmatransport.Device, error) {
		if opened++; opened == 2 || opened == 3 {
			return nil, errors.New("the test does not want it")
		}
		return provider.Open(transport, a, cfg)
	}})
	out.await(t, "nvme connect")
	before := listening(t, at)
	setenv(t, asTaker, "refuses")
	startSeparate(t, "target").awaitEnd(t)
	const line = "metrics at "
	for until := time.Now().Add(10 * time.Second); strings.Count(out.String(), line) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it does not go on: %s%s", out, errOut)
		}
	}
	errOut.await(t, "data that hosts have written to memory namespaces is lost")
	if n := strings.Count(errOut.String(), "the connections of hosts are lost"); n != 2 || listening(t, at) != before {
		t.Errorf("after %d failures socket %s listens, before %s", n, listening(t, at), before)
	}
}

// listening returns the inode of the socket that listens at an IPv4 address, according to proc_net(5).
func listening(t *testing.T, at netip.AddrPort) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(at.Addr().AsSlice()), at.Port())
	for l := range strings.Lines(string(b)) {
		const local, state, inode, listens = 1, 3, 9, "0A"
		if f := strings.Fields(l); len(f) > inode && f[local] == want && f[state] == listens {
			return f[inode]
		}
	}
	t.Fatalf("nobody listens at %v", at)
	return ""
}

// TestTakeoverOrphaned kills the running target once it has passed everything on: the new one must continue, since no
// other process can.
func TestTakeoverOrphaned(t *testing.T) {
	besideShort(t)
	c := configure(t, testConfig)
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	load := startVerified(t, c.addr, "2", time.Second)
	time.Sleep(300 * time.Millisecond)
	next := startSeparate(t, "target", "--config", c.file, "--takeover")
	next.errOut.await(t, "taking over")
	_ = s.cmd.Process.Kill() // it may have ended without an error
	next.out.await(t, "nvme connect")
	t.Logf("a command took %v at most", load.stall(t))
	next.signal(t, unix.SIGTERM)
	next.await(t, 10*time.Second)
}

// TestTakeoverRefused checks the errors if there is nothing to take over, or no need.
func TestTakeoverRefused(t *testing.T) {
	besideShort(t)
	c := configure(t, testConfig)
	command(t, "target", "--config", c.file, "--takeover").want(t, exitFailed, "--takeover: no target responds at")
	command(t, "target", "--config", c.file, "--takeover=maybe").want(t, exitUsage, "want always or upgrade")
	command(t, "target", "--config", c.file, "--background").want(t, exitUsage, "needs --takeover")
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	command(t, "target", "--config", c.file, "--takeover=upgrade").want(t, 0, "is version")
	command(t, words("namespace pause 1 -n "+testNQN+" --limit 10s")...).want(t, 0)
	refused := startSeparate(t, "target", "--config", c.file, "--takeover")
	if err := <-refused.ended; err == nil || !strings.Contains(refused.errOut.String(), "the running target continues: target: connections cannot move now: namespace 1 of") {
		t.Errorf("%v, %s", err, refused.errOut)
	}
	refused.ended <- nil
	command(t, "ls").want(t, 0, "disk.img")
	command(t, words("namespace resume 1 -n "+testNQN)...).want(t, 0)
	image := filepath.Join(c.dir, "disk.img")
	if err := os.Rename(image, image+".away"); err != nil { // the new process would find another file, or create one
		t.Fatal(err)
	}
	refused = startSeparate(t, "target", "--config", c.file, "--takeover")
	if err := <-refused.ended; err == nil || !strings.Contains(refused.errOut.String(), image+" was removed or replaced") {
		t.Errorf("%v, %s", err, refused.errOut)
	}
	refused.ended <- nil
	if err := os.Rename(image+".away", image); err != nil {
		t.Fatal(err)
	}
	in := program(t.Context(), t, "target", "--config", c.file, "--takeover", "--background")
	said, err := os.Create(filepath.Join(c.dir, "said")) // for both processes: a pipe would stay open until the other one ends
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	in.Stdout, in.Stderr = said, said
	if err := in.Run(); err != nil {
		b, _ := os.ReadFile(said.Name())
		t.Fatalf("%v: %s", err, b)
	}
	s.await(t, 10*time.Second)
	pid := 0
	fmt.Sscanf(command(t, "ls").out, "target (process %d", &pid)
	if pid == 0 || pid == s.cmd.Process.Pid || pid == in.Process.Pid {
		t.Fatalf("process %d serves", pid)
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	for until := time.Now().Add(10 * time.Second); unix.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the process in the background does not end")
		}
	}
}

// TestTakeoverReplaced checks that if the program's file was replaced by a move, the error says what can be done. Only
// the process in the background prints it.
func TestTakeoverReplaced(t *testing.T) {
	besideShort(t)
	c := configure(t, testConfig)
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	if err := os.Rename(c.write(t, "other", ""), filepath.Join(c.dir, "disk.img")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "TROUBLE: "+filepath.Join(c.dir, "disk.img")+" was replaced by another file while it is served: the content of the served file is lost", "ls")
	refused := startSeparate(t, "target", "--config", c.file, "--takeover", "--background")
	err := <-refused.ended
	refused.ended <- nil
	said := refused.errOut.String()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(said, "copy it, remove the namespace, and add it with the copy") {
		t.Errorf("%v, %s", err, said)
	}
	if strings.Contains(said, "exit status") {
		t.Errorf("it says how the process in the background ended, which has said why:\n%s", said)
	}
}

// TestTakeoverOfFlags takes over a target of flags, whose socket is beside the default one. Flags that differ are
// named, and a client that follows the target is told that it ends.
func TestTakeoverOfFlags(t *testing.T) {
	besideShort(t)
	ownSocket(t)
	addr := loopbackAddress()
	args := []string{"target", "--listen", addr, "--nqn", testNQN, "--export", "mem:4MiB", "--allow-any-host", "--sandbox", "on"}
	s := startSeparate(t, args...)
	s.out.await(t, "nvme connect")
	load := startVerified(t, addr, "1", time.Second)
	capture := startCommand(t, "capture", "-w", filepath.Join(t.TempDir(), "c.pcapng"))
	capture.errOut.await(t, "nvmeof: capturing\n")
	trace := startCommand(t, "trace")
	trace.out.await(t, "TIME")
	began := time.Now()
	next := startSeparate(t, append(args, "--takeover", "--shards", "1", "--export", "mem:8MiB")...)
	next.out.await(t, "nvme connect")
	s.await(t, 10*time.Second)
	t.Logf("taken over after %v; a command took %v at most", time.Since(began), load.stall(t))
	capture.wantEnd(exitFailed, "was handed over to another process")
	trace.wantEnd(exitFailed, "was handed over to another process")
	next.errOut.await(t, "are ignored")
	for _, want := range []string{"limits.shards default -> 1", "add namespace 2"} {
		if !strings.Contains(next.errOut.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, next.errOut)
		}
	}
	trace = startCommand(t, "trace")
	trace.out.await(t, "TIME")
	next.signal(t, unix.SIGTERM)
	next.await(t, 10*time.Second)
	trace.wantEnd(exitFailed, "the target is stopping")
}
