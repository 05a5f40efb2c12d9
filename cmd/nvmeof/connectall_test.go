package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const twoSubsystems = `
version: 1
limits: {shards: 1, polling: never}
listeners:
  - {id: 1, address: ADDR}
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 1MiB}}]
  - nqn: nqn.2026-11.org.example:two
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 2MiB}}]
`

// TestConnectAll connects all subsystems of a target, and of those to which it refers.
func TestConnectAll(t *testing.T) {
	beside(t)
	other := startTarget(t, "--export", "mem:4MiB", "--nqn", "nqn.2026-11.org.example:three", "--allow-any-host")
	s := startConfigured(t, twoSubsystems+"referrals:\n  - address: "+other.addr+":4420\n")
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect-all")...)
	c.out.await(t, "connecting to device: nvme0\nconnecting to device: nvme1\nconnecting to device: nvme2\n")
	command(t, "list").want(t, 0, "nvme0n1", "/   1.05  MB", "/   2.10  MB", "/   4.19  MB")
	command(t, s.at("connect-all")...).want(t, 0, "is already connected: nvme1")
	if o := command(t, s.at("connect-all", "--quiet")...).want(t, 0); o.errOut != "" {
		t.Errorf("quietly it says %s", o.errOut)
	}
	command(t, "disconnect", "-n", "nqn.2026-11.org.example:two").want(t, 0, "1 controller(s)")
	only := startCommand(t, s.at("connect-all", "--matching", "--quiet", "-o", "json")...)
	only.out.await(t, "nvme1\"\n}\n")
	command(t, "disconnect-all").want(t, 0)
	c.wantEnd(0)
	only.wantEnd(0)
	only = startCommand(t, s.at("connect-all", "--matching")...)
	only.out.await(t, "connecting to device: nvme0\nconnecting to device: nvme1\n")
	if o := command(t, "list-subsys").want(t, 0); strings.Contains(o.out, other.addr) {
		t.Errorf("connected to another address:\n%s", o.out)
	}
	only.stop()
	only.wantEnd(0)
}

// TestConnectAllBesideSilent checks that a discovery controller that does not answer does not delay the subsystems
// that another lists.
func TestConnectAllBesideSilent(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoSubsystems+"referrals:\n  - address: "+loopbackAddress()+":4420\n")
	s.out.await(t, "nvme connect")
	began := time.Now()
	c := startCommand(t, s.at("connect-all")...)
	c.out.await(t, "connecting to device: nvme0\nconnecting to device: nvme1\n")
	if d := time.Since(began); d > 10*time.Second { // one that does not answer is given up after 18 s
		t.Errorf("connected after %v", d)
	}
	command(t, "list").want(t, 0, "nvme0n1", "nvme1n1")
	c.stop()
	c.wantEnd(0)
}

// TestConnectAllPersistent checks that a subsystem that is listed later is connected.
func TestConnectAllPersistent(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoSubsystems)
	s.out.await(t, "nvme connect")
	watch := startCommand(t, s.at("discover", "--persistent", "-o", "json")...)
	watch.out.await(t, `"subnqn":"nqn.2026-11.org.example:two"`)
	c := startCommand(t, s.at("connect-all", "--persistent")...)
	c.out.await(t, "nvme1\n")
	command(t, words("subsystem add nqn.2026-11.org.example:later --allow-any-host")...).want(t, 0)
	c.out.await(t, "nvme2\n")
	watch.out.await(t, `{"event":"added","trtype":"rdma","traddr":"`+s.addr+`","trsvcid":"4420","subnqn":"nqn.2026-11.org.example:later"}`)
	command(t, "disconnect-all").want(t, 0)
	command(t, words("subsystem remove nqn.2026-11.org.example:later")...).want(t, 0)
	watch.out.await(t, `{"event":"removed"`)
	command(t, words("subsystem add nqn.2026-11.org.example:last --allow-any-host")...).want(t, 0)
	eventually(t, "NQN=nqn.2026-11.org.example:last", "list-subsys")
	if o := command(t, "list-subsys").want(t, 0); strings.Contains(o.out, "example:two") {
		t.Errorf("what somebody disconnected is connected again:\n%s", o.out)
	}
	for _, p := range []*process{c, watch} {
		p.stop()
		p.wantEnd(0)
	}
}

// TestConnectAllGivenUp checks that a listed subsystem is connected again after its controller was given up.
func TestConnectAllGivenUp(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect-all", "--persistent", "-l", "1", "-c", "1")...)
	c.out.await(t, "nvme0\n")
	s.end(t)
	c.errOut.await(t, "nvme0: dead: not reconnected within 1s")
	again := s.again(t)
	again.out.await(t, "nvme connect")
	eventually(t, " +- nvme0 rdma traddr="+s.addr+",trsvcid=4420 live\n", "list-subsys")
	c.stop()
	c.wantEnd(0)
}

// TestConnectAllListedAgain checks that a subsystem that was not listed for a while, and stayed connected, is
// connected again after its controller was given up.
func TestConnectAllListedAgain(t *testing.T) {
	beside(t)
	lists := startConfigured(t, "version: 1\nlimits: {shards: 1}\nlisteners:\n  - {id: 1, address: ADDR}\n")
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	referral := func(what string) {
		t.Helper()
		command(t, "referral", what, s.addr, "--socket", lists.socket).want(t, 0)
	}
	eventually(t, lists.addr, "ls", "--socket", lists.socket)
	referral("add")
	c := startCommand(t, lists.at("connect-all", "--persistent", "-l", "1", "-c", "1")...)
	c.out.await(t, "nvme0\n")
	for begun := time.Now(); !strings.Contains(c.errOut.String(), "is already connected: nvme0\n"); time.Sleep(200 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("it does not notice what is listed:\n%s%s", c.out, c.errOut)
		}
		referral("remove")
		time.Sleep(200 * time.Millisecond)
		referral("add")
	}
	s.end(t)
	c.errOut.await(t, "nvme0: dead: not reconnected within 1s")
	again := s.again(t)
	again.out.await(t, "nvme connect")
	eventually(t, " +- nvme0 rdma traddr="+s.addr+",trsvcid=4420 live\n", "list-subsys")
	c.stop()
	c.wantEnd(0)
}

// TestDiscoverBesides checks that a discovery controller that another process uses is read, and its subsystems
// connected, by that process.
func TestDiscoverBesides(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoSubsystems)
	s.out.await(t, "nvme connect")
	other := startTarget(t, "--export", "mem:4MiB", "--nqn", "nqn.2026-11.org.example:three", "--allow-any-host")
	here := loopbackAddress()
	c := startCommand(t, other.at("connect", "-n", "nqn.2026-11.org.example:three", "-w", here)...)
	c.out.await(t, "nvme0\n")
	command(t, s.at("discover", "-w", here)...).want(t, 0, "Discovery Log Number of Records 3", "example:two")
	all := startCommand(t, s.at("connect-all", "-w", here, "--persistent")...)
	all.out.await(t, "connecting to device: nvme1\nconnecting to device: nvme2\n")
	command(t, "list").want(t, 0, "nvme0n1", "nvme1n1", "nvme2n1")
	all.stop()
	all.wantEnd(0)
	if o := command(t, "list").want(t, 0, "nvme0n1"); strings.Contains(o.out, "nvme1") {
		t.Errorf("connect-all has ended, and left\n%s", o.out)
	}
	all = startCommand(t, s.at("connect-all", "-w", here)...)
	all.out.await(t, "nvme2\n")
	command(t, "disconnect", "-n", "nqn.2026-11.org.example:two").want(t, 0)
	command(t, "disconnect", "-n", testNQN).want(t, 0)
	all.wantEnd(0)
	c.stop()
	c.wantEnd(0)
}

// TestOwnerEnds checks that connect-all connects by itself, without a message, when the process ends that held its
// controllers.
func TestOwnerEnds(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoSubsystems)
	s.out.await(t, "nvme connect")
	other := startTarget(t, "--export", "mem:4MiB", "--nqn", "nqn.2026-11.org.example:three", "--allow-any-host")
	here := loopbackAddress()
	c := startCommand(t, other.at("connect", "-n", "nqn.2026-11.org.example:three", "-w", here)...)
	c.out.await(t, "nvme0\n")
	all := startCommand(t, s.at("connect-all", "-w", here, "--persistent")...)
	all.errOut.await(t, "nvme2: held by process ")
	start := time.Now()
	c.stop()
	c.wantEnd(0)
	all.errOut.await(t, "nvme1: the process that held the connection has ended")
	for _, name := range []string{"nvme1", "nvme2"} { // each has its former name
		line := "connecting to device: " + name + "\n"
		for strings.Count(all.out.String(), line) < 2 {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("%s is not connected again:\n%s%s", name, all.out, all.errOut)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it took %v", d)
	} else {
		t.Logf("it took %v", d)
	}
	command(t, "list").want(t, 0, "nvme1n1", "nvme2n1")
	all.stop()
	all.wantEnd(0)
}

// TestFiles checks that discover and connect-all start from the files.
func TestFiles(t *testing.T) {
	inOwnRunDir(t)
	s := startConfigured(t, twoSubsystems)
	s.out.await(t, "nvme connect")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "ADDR", s.addr)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf := write("discovery.conf", "# ours\n-t rdma -a ADDR -k 9\n--transport=tcp --traddr=192.0.2.1\n--transport=rdma --traddr=nowhere\n")
	command(t, "discover", "--config", conf).want(t, exitUsage, "Discovery Log Number of Records 3, ",
		"skipped: "+conf+":3: transport tcp", conf+":4:1: transport address nowhere is no IP address")
	ini := write("fabrics.conf", `[Host]
hostnqn = nqn.2014-08.org.example:me
hostid = 6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01
[I/O Controller Defaults]
ctrl-loss-tmo = 77
[Subsystem]
nqn = nqn.2026-11.org.example:two
controller = transport=rdma;traddr=ADDR
controller = transport=rdma;traddr=nowhere
`)
	c := startCommand(t, "connect-all", "--config", ini, "-c", "3")
	c.out.await(t, "nvme0\n")
	c.errOut.await(t, "reconnect interval at most 3s, given up after 1m17s")
	c.errOut.await(t, ini+":9:1: transport address nowhere is no IP address; names are not looked up")
	command(t, "list-subsys", "-o", "json").want(t, 0, `"HostNQN":"nqn.2014-08.org.example:me"`, `"HostID":"6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01"`, "example:two")
	c.stop()
	c.wantEnd(0)
}

// TestNobodyIsThere: connect-all that finds no controller has no connection, says where once,
// and once that nothing came of it. An address that stays silent is the test of that name
// TestNobodyIsThere checks connect-all without any reachable controller: it reports each address once, and once that
// nothing was connected. An address that does not answer is tested by the test of that name in nvmeof/discovery, with
// fake time.
func TestNobodyIsThere(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	o := command(t, s.at("connect-all", "-s", "4421")...).want(t, exitConnection, "nvmeof: "+s.addr+":4421: connecting queue 0: the target refuses this host: nothing listens there; is the target running, and on that port?\n", "no connection succeeded")
	if n := strings.Count(o.errOut, s.addr); n != 1 {
		t.Errorf("%d times it names the address:\n%s", n, o.errOut)
	}
}
