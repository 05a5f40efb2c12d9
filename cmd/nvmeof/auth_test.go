package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

const keyedHost = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"

func TestGenDHCHAPKey(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	secret := strings.Repeat("5a", 32)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"plain", nil, 0, "DHHC-1:00:"},
		{"SHA-512", []string{"--hmac=3"}, 0, "DHHC-1:03:"},
		{"nvme-cli's short flags", []string{"-m", "2", "-l", "48", "-n", keyedHost}, 0, "DHHC-1:02:"},
		{"64 bytes without a hash", []string{"--key-length", "64"}, 0, "DHHC-1:00:"},
		{"secret", []string{"-s", secret}, 0, "DHHC-1:00:WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWloj0TmR:\n"},
		// HMAC-SHA-256 of the host's name and "NVMe-over-Fabrics" under it.
		{"secret with a hash", []string{"-s", secret, "-m", "1", "-n", keyedHost}, 0,
			"DHHC-1:01:KPq/iaf4gb0MNKl7ajNGsVe9eyrkU7Reg/KQAMBNetbkxF6n:\n"},
		{"a subsystem's", []string{"-s", secret, "-m", "1", "-n", testNQN}, 0, "DHHC-1:01:yMkpSFIhvHcx31lzafIe1V9y2Zfw+IcFw5tUoM3QOSTMTcbg:\n"},
		{"ESXi's", []string{"-m", "1", "--nqn", "nqn.2014-08.com.example:nvme:esx1"}, 0, "DHHC-1:01:"},
		{"too long a name", []string{"--nqn", strings.Repeat("x", 224)}, exitUsage, "--nqn: "},
		{"hash 4", []string{"-m", "4"}, exitUsage, "--hmac 4"},
		{"33 bytes", []string{"-l", "33"}, exitUsage, "32, 48 or 64"},
		{"wrong length for the hash", []string{"-m", "3", "-l", "32"}, exitUsage, "needs 64"},
		{"short secret", []string{"-s", "5a"}, exitUsage, "want 64 hexadecimal digits"},
		{"no digits", []string{"-s", strings.Repeat("xy", 32)}, exitUsage, "hexadecimal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := command(t, append([]string{"gen-dhchap-key"}, c.args...)...).want(t, c.code, c.want)
			if c.code != 0 {
				return
			}
			if _, err := auth.ParseKey(o.out); err != nil || strings.Count(o.out, "\n") != 1 {
				t.Errorf("%q: %v", o.out, err)
			}
		})
	}
}

// writeKey writes a key file.
func writeKey(t *testing.T, name string, mode os.FileMode) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	text = command(t, "gen-dhchap-key", "--hmac", "1", "-n", keyedHost).want(t, 0).out
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path, strings.TrimSpace(text)
}

// TestAuthentication connects hosts with and without a key to a target that requires one.
func TestAuthentication(t *testing.T) {
	hostFile, hostKey := writeKey(t, "host.key", 0o600)
	ctrlFile, ctrlKey := writeKey(t, "ctrl.key", 0o644)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-host",
		keyedHost+",dhchap-key-file="+hostFile+",dhchap-ctrl-key-file="+ctrlFile+",dhchap-hash=sha384,dhchap-dhgroup=ffdhe2048")
	s.out.await(t, " -n "+testNQN+" --dhchap-secret KEY-OF-THE-HOST\n")
	s.errOut.await(t, "chmod 600 ")
	if !strings.Contains(s.errOut.String(), "chmod 600 "+ctrlFile) || strings.Contains(s.errOut.String(), "chmod 600 "+hostFile) {
		t.Errorf("target says of its key files:\n%s", s.errOut)
	}
	ns := func(args ...string) outcome {
		return command(t, append(s.at("id-ns", "-n", testNQN, "-q", keyedHost), args...)...)
	}
	ns("--dhchap-secret", hostKey).want(t, 0, "NVME Identify Namespace 1")
	ns("-S", hostKey, "-C", ctrlKey).want(t, 0, "NVME Identify Namespace 1")
	ns("-S", "file:"+hostFile, "-C", "file:"+ctrlFile).want(t, 0, "NVME Identify Namespace 1")
	s.errOut.await(t, "host authenticated")
	ns().want(t, exitConnection, "requires authentication", "--dhchap-secret")
	ns("-S", ctrlKey).want(t, exitConnection, "the target refuses this host: authentication failed")
	s.errOut.await(t, "dhchap-key-file")
	ns("-S", hostKey, "-C", hostKey).want(t, exitConnection, "this host refuses the target: authentication failed")
	ns("-S", "DHHC-1:01:no-sense:").want(t, exitUsage, "--dhchap-secret", "base64")
	ns("-S", "file:"+hostFile+".missing").want(t, exitUsage, "--dhchap-secret", "no such file")
	ns("-S", hostKey, "-C", hostKey[:20]).want(t, exitUsage, "--dhchap-ctrl-secret")
	ns("-C", ctrlKey).want(t, exitUsage, "--dhchap-secret")
	for _, secret := range []string{hostKey, ctrlKey} {
		if strings.Contains(s.errOut.String()+s.out.String(), secret) {
			t.Error("the target's output has a key")
		}
	}
}

// TestAttachAuthenticated checks that disks are served with the key of the host, or those of both sides, and that
// attach ends at once with wrong ones and says which side has rejected the other.
func TestAttachAuthenticated(t *testing.T) {
	hostFile, hostKey := writeKey(t, "host.key", 0o600)
	ctrlFile, ctrlKey := writeKey(t, "ctrl.key", 0o600)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-host",
		keyedHost+",dhchap-key-file="+hostFile+",dhchap-ctrl-key-file="+ctrlFile+",dhchap-hash=sha256,dhchap-dhgroup=ffdhe2048")
	for name, keys := range map[string][]string{
		"host": {"-S", hostKey}, "both": {"-S", "file:" + hostFile, "-C", "file:" + ctrlFile},
	} {
		t.Run(name, func(t *testing.T) {
			a := startAttach(t, s, append(keys, "-q", keyedHost)...)
			l := a.load(t, "1")
			l.more(t, 20)
			l.end(t)
			a.finish(t)
		})
	}
	refused := func(text string, keys ...string) {
		t.Helper()
		at := s.at("attach", "-n", testNQN, "-q", keyedHost, "--socket", filepath.Join(t.TempDir(), "s"))
		command(t, append(at, keys...)...).want(t, exitConnection, s.addr, text)
	}
	refused("requires authentication")
	refused("the target refuses this host: authentication failed", "-S", ctrlKey)
	refused("this host refuses the target: authentication failed", "-S", hostKey, "-C", hostKey)
}

func TestAllowHost(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.key")
	if err := os.WriteFile(bad, []byte("DHHC-1:01:iLrcx+dz6YaVK73GpAuGRBW9jL0FdmLsZuPDxndHL8o6fQVm:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, arg string
		code      int
		want      string
	}{
		{"misspelt option", keyedHost + ",dhchap-key-fiel=x", exitUsage, "did you mean dhchap-key-file?"},
		{"no path", keyedHost + ",dhchap-key-file=", exitUsage, "dhchap-key-file is empty"},
		{"no key", keyedHost + ",dhchap-hash=sha256", exitUsage, "dhchap-key-file is missing"},
		{"hash", keyedHost + ",dhchap-key-file=x,dhchap-hash=md5", exitUsage, "sha256, sha384 and sha512"},
		{"group", keyedHost + ",dhchap-key-file=x,dhchap-dhgroup=modp", exitUsage, "ffdhe8192"},
		{"no file", keyedHost + ",dhchap-key-file=" + dir + "/none", exitUsage, "no such file"},
		{"bad key", keyedHost + ",dhchap-key-file=" + bad, exitUsage, "checksum"},
		{"name", strings.Repeat("x", 224), exitUsage, "longer than 223"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command(t, "target", "--listen", "127.99.0.2", "--nqn", testNQN, "--export", "mem:1MiB", "--allow-host", c.arg).
				want(t, c.code, "--allow-host", c.want)
		})
	}
	if h, err := targetcommand.ParseAllowHost("nqn.2026-11.org.example:a,b"); err != nil || h.NQN != "nqn.2026-11.org.example:a,b" {
		t.Errorf("a name with a comma: %+v, %v", h, err)
	}
}
