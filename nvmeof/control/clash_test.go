package control

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestOwnFilesAreNotExported: a change cannot export a file to which the target writes lines, or one that says who
// may do what, by any name.
func TestOwnFilesAreNotExported(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, func(c *Config) {
		c.Settings.Audit.File = config.Path(filepath.Join(dir, "audit"))
		c.Settings.Console.Listen.AddrPort = netip.MustParseAddrPort("127.0.0.1:9430")
		c.Settings.Console.Tokens = config.Path(filepath.Join(dir, "tokens"))
	})
	r.dir = dir
	const hosts = "version: 1\naudit: {file: DIR/audit}\nconsole: {listen: '127.0.0.1:9430', tokens: DIR/tokens}\nsubsystems:\n  - nqn: a\n    hosts: [{nqn: h, key-file: DIR/key}, {nqn: i, key-file: DIR/key}]\n"
	r.write("key", []byte("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n"))
	if _, err := r.Apply(r.doc(hosts), Options{}); err != nil {
		t.Fatal(err)
	}
	for file, where := range map[string]string{"audit": "audit.file", "tokens": "console.tokens", "key": "subsystems[0].hosts[0].key-file"} {
		if file != "key" {
			r.write(file, make([]byte, 1<<16))
		}
		if err := os.Link(dir+"/"+file, dir+"/link-"+file); err != nil {
			t.Fatal(err)
		}
		text := hosts + "    namespaces:\n      - {nsid: 1, file: {path: DIR/link-" + file + "}}\n"
		for _, o := range []Options{{DryRun: true}, {}} {
			_, err := r.Apply(r.doc(text), o)
			if err == nil || !strings.Contains(err.Error(), "link-"+file+" is the same file as "+dir+"/"+file+", which is used as "+where+"; export another file") {
				t.Errorf("%s, %+v: %v", file, o, err)
			}
		}
	}
}

// TestClashes: one file with two names is found, whether it exists or not.
func TestClashes(t *testing.T) {
	r := newRig(t)
	r.write("disk", make([]byte, 4096))
	for name, of := range map[string]string{"hard": "disk", "resv": "disk", "token": "disk"} {
		if err := os.Link(r.dir+"/"+of, r.dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(r.dir, r.dir+"/folder"); err != nil {
		t.Fatal(err)
	}
	doc := r.doc(`version: 1
events: {file: DIR/folder/state}
audit: {file: DIR/hard}
console: {listen: "127.0.0.1:9", tokens: DIR/token, tls: {certificate: DIR/key, key: DIR/key}}
subsystems:
  - nqn: a
    state: DIR/state
    hosts: [{nqn: h, key-file: DIR/key}]
    namespaces:
      - {nsid: 1, file: {path: DIR/disk}, reservations: DIR/resv}
      - {nsid: 2, memory: {size: 1MiB}, reservations: DIR/own}
`)
	var got []string
	for _, p := range Clashes(doc, r.dir+"/own") {
		got = append(got, strings.ReplaceAll(p.String(), r.dir, "DIR"))
	}
	want := []string{
		"subsystems[0].namespaces[0].reservations: DIR/resv is the same file as DIR/disk, which is used as subsystems[0].namespaces[0]; name another file",
		"subsystems[0].namespaces[1].reservations: DIR/own is also used as the configuration file; name another file",
		"events.file: DIR/folder/state is the same file as DIR/state, which is used as subsystems[0].state; name another file",
		"audit.file: DIR/hard is the same file as DIR/disk, which is used as subsystems[0].namespaces[0]; name another file",
		"console.tokens: DIR/token is the same file as DIR/disk, which is used as subsystems[0].namespaces[0]; name another file",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// TestFilesOfOthersStoresAreNotExported: a change cannot export credentials for the group's store or a Ceph
// cluster, even if the caller may add namespaces in that folder.
func TestFilesOfOthersStoresAreNotExported(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) config.Path { return config.Path(filepath.Join(dir, name)) }
	for name, set := range map[string]func(*config.Gateways){
		"group.password-file":   func(g *config.Gateways) { g.User, g.PasswordFile = "u", at("file") },
		"group.tls.key":         func(g *config.Gateways) { g.TLS.Certificate, g.TLS.Key = at("other"), at("file") },
		"group.tls.certificate": func(g *config.Gateways) { g.TLS.Certificate, g.TLS.Key = at("file"), at("other") },
		"group.tls.authority":   func(g *config.Gateways) { g.TLS.Authority = at("file") },
		"group.conf":            func(g *config.Gateways) { g.Store, g.Conf = "rados://p/x", at("file") },
	} {
		g := config.Gateways{Store: "etcd://192.0.2.1/x"}
		set(&g)
		r := newRig(t, func(c *Config) { c.Settings.Group, c.Settings.Sandbox.Paths = g, []config.Path{config.Path(dir)} })
		r.dir = dir
		r.write("file", make([]byte, 1<<16))
		_ = os.Link(dir+"/file", dir+"/link") // of the previous case
		for _, path := range []config.Path{at("file"), at("link")} {
			_, err := r.Edit(func(d *config.Document) error {
				d.Subsystems = []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{{NSID: 1, Fence: config.FenceLease, File: &config.File{Path: path}}}}}
				return nil
			}, Options{})
			if err == nil || !strings.Contains(err.Error(), "used as "+name) {
				t.Errorf("%s, by %s: %v", name, path, err)
			}
		}
	}
	doc := &config.Document{Subsystems: []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{
		{NSID: 1, RBD: &config.RBD{Image: "p/a", Conf: at("file")}}, {NSID: 2, RBD: &config.RBD{Image: "p/b", Conf: at("file")}},
		{NSID: 3, File: &config.File{Path: at("link")}}}}}}
	if found := Clashes(doc, "-"); len(found) != 2 || !strings.Contains(found[0].String(), "is the same file as "+dir+"/link") {
		t.Errorf("a cluster's configuration that is exported: %v", found)
	}
}
