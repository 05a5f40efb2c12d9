package config

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// keyReader returns a function that reads imported keys.
func keyReader(keys []ImportedKey) func(KeyFile) (string, error) {
	return func(k KeyFile) (string, error) {
		for _, x := range keys {
			if x.Path == string(k) {
				return x.Secret + "\n", nil
			}
		}
		return "", errors.New(string(k) + ": no such file")
	}
}

// TestNvmetcli: nvmetcli's file is converted to the document beside it, and that to the same file, byte for byte.
func TestNvmetcli(t *testing.T) {
	text := read(t, "testdata/nvmet.json")
	in, err := ImportNvmetcli("config.json", text, "/keys")
	if err != nil || len(in.Warnings) > 0 {
		t.Fatal(err, in)
	}
	doc := parsed(t, string(read(t, "testdata/nvmet.yaml")))
	if string(in.Document.JSON()) != string(doc.JSON()) {
		t.Errorf("imported\n%s\nwant\n%s", in.Document.YAML(), doc.YAML())
	}
	out, warnings, err := ExportNvmetcli(in.Document, keyReader(in.Keys))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if string(out) != string(text) {
		t.Errorf("exported\n%s\nwant\n%s", out, text)
	}
}

// TestNvmetcliFull: other attributes that a kernel dumps describe what this target does anyway, or cause a warning.
func TestNvmetcliFull(t *testing.T) {
	in, err := ImportNvmetcli("c", read(t, "testdata/nvmetfull.json"), "/keys")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range in.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"c:5:5: hosts: host unused is not allowed by any subsystem, and is left out",
		"c:14:17: ports[0].addr.treq: required has no counterpart here, and is left out",
		"c:37:9: subsystems[0].namespaces[1]: namespace 2 is not enabled, and is left out",
		"c:47:22: subsystems[0].attr.pi_enable: 1 has no counterpart here, and is left out",
		"c:47:72: subsystems[0].attr.version: 2.1 is left out; supported versions are 1.2.1, 1.3, 1.4, 2.0; controllers report 2.0",
		"c:50:5: subsystems[1]: subsystem nowhere is left out, since it is on no port",
		"c:52:13: future: is unknown here, and is left out",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if g := in.Document.Listeners[0].ANAGroups; len(g) != 2 || *g[1] != (ANAGroup{3, "inaccessible"}) {
		t.Errorf("groups %s: the kernel has a group that the port does not name inaccessible", JSON(g))
	}
}

func TestNvmetcliRefused(t *testing.T) {
	text := string(read(t, "testdata/nvmet.json"))
	for _, c := range []struct{ old, new, want string }{
		{`"trtype": "rdma"`, `"none": ""`, "ports[0].addr.trtype: this target serves only RDMA, but the transport is"},
		{`"traddr": "192.0.2.1"`, `"traddr": "224.0.0.1"`, "address 224.0.0.1: hosts cannot connect to it"},
		{`"portid": 1,`, `"portid": 0,`, "ports[0].portid: 0 is out of range; use 1 to 65535"},
		{`"grpid": 2`, `"grpid": 200`, "ana_groups[1].grpid: 200 is out of range; use 1 to 128"},
		{`"state": "non-optimized"`, `"state": "live"`, "ana.state: live is not known"},
		{`"hostnqn"` + "\n      ]", `"other"` + "\n      ]", "allowed_hosts[1]: host other is not defined; add it to hosts"},
		{`"path": "/srv/disk.img"`, `"path": "disk.img"`, "device.path: path disk.img is relative"},
		{`"path": "/srv/disk.img",`, "", "subsystems[1].namespaces[0]: device.path is missing"}, // found by fuzzing
		{`"nsid": 7`, `"nsid": "seven"`, "nsid: seven is not a number"},
		{`"nqn": "testnqn"`, `"passthru": [{"enable": 1}], "nqn": "testnqn"`, "subsystems[0].passthru: this target cannot pass a whole controller through"},
		{`"ports": [`, `"ports": {`, "not JSON"},
		{`"192.0.2.1",
        "treq": "not specified",
        "trsvcid": "4421"`, `"192.0.2.1",
        "treq": "not specified",
        "trsvcid": "4420"`, "give each its own port, or address"},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s is not in the file", c.old)
		}
		_, err := ImportNvmetcli("c", []byte(changed), "/keys")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestNvmetcliGroupTwice: nvmetcli saves the ANA group of a namespace twice, and restores the one outside of the
// attributes.
func TestNvmetcliGroupTwice(t *testing.T) {
	text := string(read(t, "testdata/nvmet.json"))
	for _, c := range []struct {
		old, new string
		want     int
	}{
		{`"ana_grpid": 2`, `"ana": {"grpid": "2"}, "ana_grpid": 2`, 2},
		{`"ana_grpid": 2`, `"ana": {"grpid": "2"}`, 2},
		{`"ana_grpid": 2`, `"ana": {"grpid": "1"}, "ana_grpid": 2`, 2},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s is not in the file", c.old)
		}
		in, err := ImportNvmetcli("c", []byte(changed), "/keys")
		if err != nil || len(in.Warnings) > 0 {
			t.Errorf("%s: %v, warnings %v", c.new, err, in)
			continue
		}
		found := false
		for _, s := range in.Document.Subsystems {
			found = found || slices.ContainsFunc(s.Namespaces, func(n *Namespace) bool { return n.ANAGroup == c.want })
		}
		if !found {
			t.Errorf("%s: no namespace is in group %d", c.new, c.want)
		}
	}
}

// TestNvmetcliOfSPDK: for a configuration of SPDK, one problem says so.
func TestNvmetcliOfSPDK(t *testing.T) {
	_, err := ImportNvmetcli("c", []byte(`{"subsystems": [
  {"subsystem": "bdev", "config": [{"method": "bdev_aio_create", "params": {"name": "aio0", "filename": "/srv/disk.img"}}]},
  {"subsystem": "nvmf", "config": [{"method": "nvmf_create_subsystem", "params": {"nqn": "nqn.2016-06.io.spdk:disk"}}]}]}`), "/keys")
	if err == nil || !strings.HasPrefix(err.Error(), "c:1:1: this is a configuration of SPDK, not of nvmetcli") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

const nvmetMixed = `{
  "hosts": [{"nqn": "a:b", "dhchap": {"key": "one"}}, {"nqn": "a_b", "dhchap": {"key": "two"}}, {"nqn": "t", "dhchap": {"key": "three"}}],
  "ports": [
    {"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "0.0.0.0", "trsvcid": "4420"}, "param": {"inline_data_size": "99999"},
     "ana_groups": [], "referrals": [], "subsystems": ["both", "tcp"]},
    {"portid": 2, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.1", "trsvcid": "4420"},
     "ana_groups": [], "subsystems": ["both"], "referrals": [
       {"name": "fc", "enable": 1, "addr": {"trtype": "fc", "adrfam": "fc", "traddr": "nn-0x1:pn-0x2", "trsvcid": "none"}},
       {"name": "own", "enable": 1, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.1", "trsvcid": "4421"}},
       {"name": "r1", "enable": 1, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.9", "trsvcid": "4420", "portid": "7"}}]},
    {"portid": 3, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.1", "trsvcid": "4421"},
     "ana_groups": [], "subsystems": ["both"], "referrals": [
       {"name": "r1", "enable": 1, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.9", "trsvcid": "4420", "portid": "8"}},
       {"name": "r2", "enable": 1, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.9", "trsvcid": "4420", "portid": "7"}}]}
  ],
  "subsystems": [
    {"nqn": "both", "allowed_hosts": ["a:b", "a_b"], "attr": {"version": "1.4.0"}, "namespaces": [{"nsid": 1, "device": {"path": "/dev/sda"}}]},
    {"nqn": "tcp", "allowed_hosts": ["t"], "namespaces": []}
  ]
}`

// TestNvmetcliMixed: what this target cannot serve is left out with a warning, and the rest is imported.
func TestNvmetcliMixed(t *testing.T) {
	in, err := ImportNvmetcli("c", []byte(nvmetMixed), "/keys")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range in.Warnings {
		_, text, _ := strings.Cut(w.String(), ": ")
		got = append(got, text)
	}
	want := []string{
		"ports[0]: this target serves only RDMA: the port with transport tcp is left out; keep it with nvmetcli, or change it to rdma",
		"ports[1].referrals[0]: has transport fc, and is left out",
		"ports[1].referrals[1]: is left out: it refers to a port of this target, which the discovery log lists anyway",
		"ports[2].referrals[0]: differs from ports[1].referrals[2], which is used for all ports",
		"subsystems[1]: subsystem tcp is left out, since its ports are left out",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	doc := parsed(t, `version: 1
listeners: [{id: 2, address: 192.0.2.1}, {id: 3, address: "192.0.2.1:4421"}]
subsystems:
  - {nqn: both, nvme-version: "1.4", hosts: [{nqn: "a:b", key-file: /keys/a_b.key}, {nqn: a_b, key-file: /keys/a_b_.key}], namespaces: [{nsid: 1, block: {path: /dev/sda}}]}
referrals: [{address: 192.0.2.9, port-id: 7}]
`)
	if string(in.Document.YAML()) != string(doc.YAML()) {
		t.Errorf("imported\n%s\nwant\n%s", in.Document.YAML(), doc.YAML())
	}
	if len(in.Keys) != 2 || in.Keys[0].Secret != "one" || in.Keys[1].Secret != "two" {
		t.Errorf("keys %v", in.Keys)
	}
	_, err = ImportNvmetcli("c", []byte(strings.ReplaceAll(nvmetMixed, `"trtype": "rdma"`, `"trtype": "tcp"`)), "/keys")
	if err == nil || !strings.Contains(err.Error(), "ports: no port has transport rdma") {
		t.Errorf("%v, want that nothing is left", err)
	}
}

// TestNvmetcliUnable: settings that the kernel's target does not support are refused.
func TestNvmetcliUnable(t *testing.T) {
	for edit, want := range map[string]string{
		"access: write":                         "",
		"access: read":                          "subsystems[0].hosts[1]: the kernel's target gives every allowed host all namespaces; remove access and namespaces",
		"key-file: /none":                       "/none: no such file",
		"namespaces: [{nsid: 1, access: none}]": "gives every allowed host all namespaces",
	} {
		text := strings.Replace(base, "access: read", edit, 1)
		text = strings.Replace(text, "memory:\n          size: 1MiB", "block: {path: /dev/x}", 1)
		text = strings.Replace(text, "/a1", "/a1\n        block-size: 4096", 1)
		_, _, err := ExportNvmetcli(parsed(t, text), keyReader(nil))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", edit, err, want)
		}
	}
	for edit, want := range map[string]string{
		"memory: {size: 1MiB}":                      "subsystems[0].namespaces[0]: the kernel's target cannot export memory; use a file on a tmpfs",
		"file: {path: /a}\n        read-only: true": "hosts could write",
		"file: {path: /a}\n        block-size: 512": "serves files in blocks of 4096 bytes",
	} {
		text := strings.NewReplacer("file:\n          path: /a1", edit, "access: read", "access: write", "memory:\n          size: 1MiB", "block: {path: /dev/x}").Replace(base)
		_, _, err := ExportNvmetcli(parsed(t, text), keyReader(nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", edit, err, want)
		}
	}
	_, warnings, err := ExportNvmetcli(parsed(t, "version: 1\nlimits: {shards: 2}\nsubsystems: [{nqn: é, refuse-duplicates: true}]\n"), nil)
	if err != nil || len(warnings) != 2 {
		t.Errorf("%v, %v, want two warnings", warnings, err)
	}
}

// FuzzNvmetcli: no text causes a panic, and an export is imported as the same document.
func FuzzNvmetcli(f *testing.F) {
	f.Add(read(f, "testdata/nvmet.json"))
	f.Add(read(f, "testdata/nvmetfull.json"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := ImportNvmetcli("f", text, "/keys")
		if err != nil {
			return
		}
		out, _, err := ExportNvmetcli(in.Document, keyReader(in.Keys))
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON:\n%s", out)
		}
		again, err := ImportNvmetcli("again", out, "/keys")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		second, _, err := ExportNvmetcli(again.Document, keyReader(again.Keys))
		if err != nil || string(second) != string(out) {
			t.Fatalf("%v\n%s\nwas\n%s", err, second, out)
		}
	})
}
