package token

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// run runs a command, and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	made := map[string]string{}
	for name, role := range map[string]control.Role{"alice": control.RoleOperate, "bob@x.org": control.RoleAdmin} {
		token, err := run(t, "create", name, "--role", string(role), "--file", file)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = strings.TrimSpace(token)
	}
	text, _ := os.ReadFile(file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(text), made["alice"]) {
		t.Errorf("the file is %v, %v:\n%s", info, err, text)
	}
	k := &Keeper{Path: file}
	if e, ok, err := k.Find(HashOf(made["alice"])); !ok || err != nil || e.Name != "alice" || e.Role != control.RoleOperate {
		t.Errorf("alice's token: %v, %v, %v", e, ok, err)
	}
	for _, wrong := range []string{"", made["alice"] + "x", strings.ToUpper(made["alice"])} {
		if e, ok, _ := k.Find(HashOf(wrong)); ok {
			t.Errorf("%q is %v", wrong, e)
		}
	}
	if out, err := run(t, "list", "--file", file); err != nil || !strings.Contains(out, "bob@x.org  admin") || strings.Contains(out, fmt.Sprintf("%x", HashOf(made["alice"]))) {
		t.Errorf("list: %v\n%s", err, out)
	}
	if out, err := run(t, "list", "--file", file, "-o", "json"); err != nil || !strings.Contains(out, `"name": "bob@x.org",`) || !strings.Contains(out, `"role": "admin"`) || strings.Contains(out, "hash") {
		t.Errorf("list -o json: %v\n%s", err, out)
	}
	if out, err := run(t, "revoke", "alice", "--file", file); err != nil || out != "revoke token alice\n" {
		t.Errorf("revoke: %v, %q", err, out)
	}
	if l, err := Read(t.Context(), file); err != nil || len(l) != 1 {
		t.Errorf("after revoke: %v, %v", l, err)
	}
}

// TestCommandsAtOnce checks that concurrent changes of a file all take effect.
func TestCommandsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	const n = 8
	var all sync.WaitGroup
	each := func(args func(name string) []string) {
		for i := range n {
			all.Go(func() {
				if _, err := run(t, append(args(fmt.Sprint("t", i)), "--file", file)...); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	each(func(name string) []string { return []string{"create", name} })
	if l, err := Read(t.Context(), file); err != nil || len(l) != n {
		t.Errorf("%d made: %v, %v", n, l, err)
	}
	each(func(name string) []string { return []string{"revoke", name} })
	if l, err := Read(t.Context(), file); err != nil || len(l) != 0 {
		t.Errorf("all revoked: %v, %v", l, err)
	}
}

// TestUnseen checks that a token that could not be printed is not in the file.
func TestUnseen(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	file := filepath.Join(t.TempDir(), "tokens")
	if _, err := run(t, "create", "bob", "--file", file); err != nil {
		t.Fatal(err)
	}
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(full)
	cmd.SetArgs([]string{"create", "alice", "--file", file})
	if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if l, err := Read(t.Context(), file); err != nil || len(l) != 1 || l[0].Name != "bob" {
		t.Errorf("%v, %v", l, err)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	if _, err := run(t, "create", "alice", "--file", file); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"create alice --file " + file, "exists already"},
		{"create bob --role root --file " + file, "it is read, operate or admin"},
		{"create b/b --file " + file, "letters"},
		{"create " + strings.Repeat("b", 65) + " --file " + file, "1 to 64"},
		{"create bob", "--file is missing"},
		{"list", "--file is missing"},
		{"list --file " + file + "2", "nvmeof token create"},
		{"list --file " + open, "chmod 600"},
		{"revoke bob --file " + file, "nvmeof token list"},
		{"revoke bob --file " + file + "2", "nvmeof token create"},
		{"create bob --file " + dir + "/no/tokens", "no such"},
	} {
		if _, err := run(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	if out, err := run(t, "list", "--file", file); err != nil || strings.Count(out, "\n") != 2 {
		t.Errorf("a mistake has changed the file: %v\n%s", err, out)
	}
}

func TestParse(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	if l, err := Parse([]byte("# who\n\na read " + hash + "\r\n b  admin\t" + hash)); err != nil || len(l) != 2 || l[1].Name != "b" {
		t.Errorf("%v, %v", l, err)
	}
	for text, want := range map[string]string{
		"a read":                                   "want a name, a role and a hash",
		"a read " + hash + " x":                    "want a name",
		"a read nvmeof-secret":                     "if it is the token itself",
		"a read " + hash + "ab":                    "SHA-256",
		"a write " + hash:                          "read, operate or admin",
		"<b> read " + hash:                         "letters",
		"a read " + hash + "\na admin " + hash:     "line 2: a exists already",
		strings.Repeat("x", 100) + " read " + hash: "64",
	} {
		if l, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, l, err, want)
		}
	}
	var many strings.Builder
	for i := range maxEntries + 1 {
		fmt.Fprintf(&many, "n%d read %s\n", i, hash)
	}
	if _, err := Parse([]byte(many.String())); err == nil || !strings.Contains(err.Error(), "more than 4096") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a read " + strings.Repeat("ab", 32))
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse([]byte(text))
		if err != nil {
			return
		}
		if again, err := Parse(l.text()); err != nil || len(again) != len(l) {
			t.Errorf("%q is %v, and again %v, %v", text, l, again, err)
		}
	})
}

// TestKeeperFollows checks that a revoked token is rejected after a second, and that a file that cannot be read has no
// tokens.
func TestKeeperFollows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	synctest.Test(t, func(t *testing.T) {
		token, hash := New()
		write := func(l List) {
			if err := os.WriteFile(file, l.text(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(List{{"a", control.RoleRead, hash}})
		k := &Keeper{Path: file}
		if _, ok, err := k.Find(HashOf(token)); !ok || err != nil {
			t.Fatal("not there", err)
		}
		write(nil)
		time.Sleep(time.Second)
		if _, ok, err := k.Find(HashOf(token)); ok || err != nil {
			t.Error("revoked, and taken", err)
		}
		write(List{{"a", control.RoleRead, hash}})
		_ = os.Chmod(file, 0o640)
		time.Sleep(time.Second)
		if _, ok, err := k.Find(HashOf(token)); ok || err == nil {
			t.Error("others may read the file, and it counts", err)
		}
	})
}

func TestLimit(t *testing.T) {
	var l Limit
	now := time.Now()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range burst {
		if l.Wait(a, now) != 0 {
			t.Fatal("too early")
		}
		l.Failed(a, now)
	}
	if l.Wait(a, now) != pause || l.Wait(netip.MustParseAddr("::ffff:192.0.2.1"), now) != pause || l.Wait(b, now) != 0 || l.Wait(a, now.Add(pause)) != 0 {
		t.Error(l.Wait(a, now), l.Wait(b, now))
	}
	l.Failed(netip.MustParseAddr("2001:db8::1%eth0"), now)
	if _, ok := l.again[netip.MustParseAddr("2001:db8::")]; !ok {
		t.Error("a network of IPv6 is not one address", l.again)
	}
	var many Limit
	for i := range 3 * maxAddresses {
		many.Failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now.Add(time.Duration(i/maxAddresses)*time.Hour))
	}
	if len(many.again) > maxAddresses {
		t.Error(len(many.again), "addresses are kept")
	}
}
