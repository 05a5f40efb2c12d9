package interop

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var wireguard = flag.Bool("wireguard", false, "run softroce over WireGuard between two network namespaces; needs root, /dev/net/tun, and a module proxy for wireguard-go")

// wireguardGo is WireGuard in user space: the setup of deploy/SECURITY.md without the kernel's module.
const wireguardGo = "golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446"

// A wgEnd is one machine: a namespace with an interface of the underlying network and a WireGuard interface.
type wgEnd struct {
	namespace, device, below, inside string
	key                              *ecdh.PrivateKey
}

// wgPrograms builds the programs in a folder, or skips the test.
func wgPrograms(t *testing.T) (dir string) {
	t.Helper()
	switch _, err := os.Stat("/dev/net/tun"); {
	case !*wireguard:
		t.Skip("makes network namespaces: go test ./test/interop -run TestWireGuard -wireguard")
	case os.Geteuid() != 0:
		t.Skip("network namespaces need root")
	case err != nil:
		t.Skip("wireguard-go needs a tun device:", err)
	}
	dir = t.TempDir()
	install := exec.Command("go", "install", wireguardGo)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("no wireguard-go: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", filepath.Join(dir, "nvmeof"), "./cmd/nvmeof").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestWireGuard: target and host communicate over WireGuard, as deploy/SECURITY.md describes. The target must not
// accept RoCE from the underlying network.
func TestWireGuard(t *testing.T) {
	dir := wgPrograms(t)
	ends := []*wgEnd{
		{namespace: "nvwgt", device: "nvwgt0", below: "10.98.0.1", inside: "10.99.0.1"},
		{namespace: "nvwgh", device: "nvwgh0", below: "10.98.0.2", inside: "10.99.0.2"},
	}
	for _, e := range ends {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		e.key = key
		must(t, "ip", "netns", "add", e.namespace)
		t.Cleanup(func() { must(t, "ip", "netns", "delete", e.namespace) })
	}
	must(t, "ip", "-n", "nvwgt", "link", "add", "below", "type", "veth", "peer", "name", "below", "netns", "nvwgh")
	for i, e := range ends {
		e.begin(t, dir, ends[1-i])
	}
	run := func(e *wgEnd, args ...string) *exec.Cmd {
		cmd := exec.Command("ip", append([]string{"netns", "exec", e.namespace, filepath.Join(dir, "nvmeof")}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "NVMEOF_RUN_DIR="+dir)
		return cmd
	}
	const nqn = "nqn.2026-11.org.example:disk"
	target := run(ends[0], "target", "--listen", ends[0].inside, "--nqn", nqn, "--export", "mem:16MiB", "--allow-any-host", "--socket", "none")
	var said bytes.Buffer
	target.Stdout, target.Stderr = &said, &said
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = target.Process.Signal(unix.SIGTERM)
		_ = target.Wait()
		if t.Failed() {
			t.Logf("the target said:\n%s", &said)
		}
	})
	before := ends[0].received(t)
	var out []byte
	var err error
	for range 50 { // the target may not serve yet
		out, err = run(ends[1], "bench", "-t", "rdma", "-a", ends[0].inside, "-n", nqn, "--rw", "write", "--bs", "64k", "--size", "4MiB", "--verify").CombinedOutput()
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := ends[0].received(t) - before
	if passed < 100 {
		t.Errorf("%d packets passed the network below", passed)
	}
	// UDP port 4791 of the underlying network's address, or of every address.
	if sockets := ends[0].read(t, "/proc/net/udp"); strings.Contains(sockets, "0100620A:12B7") || strings.Contains(sockets, "00000000:12B7") {
		t.Errorf("the target takes RoCE from the network below:\n%s", sockets)
	}
	t.Logf("%d packets on the network below\n%s", passed, out)
}

func must(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}

// begin sets up the link, and WireGuard on it.
func (e *wgEnd) begin(t *testing.T, dir string, other *wgEnd) {
	t.Helper()
	must(t, "ip", "-n", e.namespace, "addr", "add", e.below+"/24", "dev", "below")
	must(t, "ip", "-n", e.namespace, "link", "set", "below", "up")
	must(t, "ip", "-n", e.namespace, "link", "set", "lo", "up")
	cmd := exec.Command("ip", "netns", "exec", e.namespace, filepath.Join(dir, "wireguard"), "-f", e.device)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	settings := fmt.Sprintf("set=1\nprivate_key=%x\nlisten_port=51820\npublic_key=%x\nendpoint=%s:51820\nallowed_ip=%s/32\n\n",
		e.key.Bytes(), other.key.PublicKey().Bytes(), other.below, other.inside)
	var c net.Conn
	var err error
	for range 100 {
		if c, err = net.Dial("unix", "/var/run/wireguard/"+e.device+".sock"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("wireguard-go: %v\n%s", err, &said)
	}
	defer c.Close()
	_, _ = io.WriteString(c, settings)
	answer := make([]byte, 100)
	if n, _ := c.Read(answer); !strings.Contains(string(answer[:n]), "errno=0") {
		t.Fatalf("wireguard-go answers %q", answer[:n])
	}
	must(t, "ip", "-n", e.namespace, "addr", "add", e.inside+"/24", "dev", e.device)
	must(t, "ip", "-n", e.namespace, "link", "set", e.device, "up")
}

// read reads a file in the network namespace.
func (e *wgEnd) read(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", e.namespace, "cat", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// received returns how many packets the underlying network has delivered.
func (e *wgEnd) received(t *testing.T) (packets int) {
	t.Helper()
	for line := range strings.Lines(e.read(t, "/proc/net/dev")) {
		var bytes int
		if n, _ := fmt.Sscanf(strings.TrimSpace(line), "below: %d %d", &bytes, &packets); n == 2 {
			return packets
		}
	}
	t.Fatal("there is no network below")
	return 0
}
