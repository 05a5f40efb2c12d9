package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestProblems checks the position and the text of each problem.
func TestProblems(t *testing.T) {
	const head = "version: 1\n"
	const listener = head + "listeners: [{id: 1, address: 192.0.2.1}]\n"
	subsystem := func(rest string) string { return listener + "subsystems:\n- nqn: nqn.2026-11.org.example:a\n" + rest }
	namespace := func(rest string) string { return subsystem("  namespaces:\n  - nsid: 1\n" + rest) }
	for _, c := range []struct {
		name, text string
		want       []string // one each, complete or in part
	}{
		{"empty", "", []string{"f: the document is empty; begin it with version: 1"}},
		{"comment", "# nothing\n", []string{"the document is empty"}},
		{"no version", "listeners: []\n", []string{"f:1:1: version is missing; add it: Version of this schema: 1."}},
		{"version 2", "version: 2\n", []string{"f:1:10: version: 2 is not a version of this format; this program knows version 1"}},
		{"tab", "version: 1\nlimits:\n\tshards: 1\n", []string{"f:3:1: not YAML: "}},
		{"bracket", "version: 1\nlisteners: [\n", []string{"not YAML: "}},
		{"anchor", head + "limits: &a {shards: 1}\n", []string{"f:2:9: unsupported kind of YAML (anchor); write the value in full"}},
		{"tag", head + "limits: {shards: !!int 1}\n", []string{"f:2:18: unsupported kind of YAML"}},
		{"second document", head + "---\nversion: 1\n", []string{"a second document begins here; keep one per file"}},
		{"list", "- version: 1\n", []string{"f:1:1: is a list, want an object"}},
		{"unknown", head + "lisners: []\n", []string{"f:2:1: unknown field lisners; did you mean listeners?"}},
		{"underscore", head + "limits:\n  max_data: 1MiB\n", []string{"f:3:3: limits: unknown field max_data; did you mean max-data?"}},
		{"unlike any", head + "zone: 1\n", []string{"f:2:1: unknown field zone; the fields are version, transport,"}},
		{"twice", head + "limits: {}\nlimits: {}\n", []string{"f:3:1: limits: is given twice; the first is in line 2; keep one"}},
		{"null", head + "limits: {shards: null}\n", []string{"f:2:18: limits.shards: is nothing (null), want a number; give a value, or leave the field out"}},
		{"text for number", head + "limits: {shards: \"2\"}\n", []string{"f:2:18: limits.shards: is text, want a number; write it without quotes"}},
		{"word for number", head + "limits: {shards: two}\n", []string{"f:2:18: limits.shards: is text, want a number"}},
		{"yes", head + "subsystems: [{nqn: nqn.2026-11.org.example:a, allow-any-host: yes}]\n", []string{"f:2:63: subsystems[0].allow-any-host: is text, want true or false; write true"}},
		{"OFF", head + "subsystems: [{nqn: nqn.2026-11.org.example:a, allow-any-host: OFF}]\n", []string{"is text, want true or false; write false"}},
		{"quoted truth", head + "subsystems: [{nqn: nqn.2026-11.org.example:a, allow-any-host: \"true\"}]\n", []string{"is text, want true or false; write it without quotes"}},
		{"fraction", head + "limits: {shards: 2.5}\n", []string{"f:2:18: limits.shards: 2.5 is not a whole number in decimal digits"}},
		{"octal", head + "limits: {shards: 010}\n", []string{"f:2:18: limits.shards: 010 is 8 to some programs and 10 to others; write it without leading zeros"}},
		{"octal size", head + "limits: {queue-memory: 0100000}\n", []string{"limits.queue-memory: size 0100000: write it as 4096, 4k, 512MiB or 10GB, without a zero in front"}},
		{"too many", head + "limits: {shards: 65}\n", []string{"f:2:18: limits.shards: 65 is too large; at most 64"}},
		{"none", head + "limits: {shards: 0}\n", []string{"f:2:18: limits.shards: 0 is too small; at least 1"}},
		{"size", head + "limits: {queue-memory: 1 gig}\n", []string{`f:2:24: limits.queue-memory: size "1 gig": write it as 4096, 4k, 512MiB or 10GB`}},
		{"size overflow", head + "limits: {queue-memory: 9000000000TiB}\n", []string{"limits.queue-memory: size 9000000000TiB: write it as"}},
		{"size negative", head + "limits: {queue-memory: -1}\n", []string{"limits.queue-memory: size -1: write it as"}},
		{"in-capsule", head + "limits: {in-capsule: 1000}\n", []string{"f:2:22: limits.in-capsule: 1KB is not a multiple of 16; write 1008"}},
		{"max-data", head + "limits: {max-data: 5000}\n", []string{"f:2:20: limits.max-data: 5KB is not a power of two; write 4KiB"}},
		{"duration", head + "limits: {revalidate: 5}\n", []string{`is a number, want text; put it in quotes: "5"`}},
		{"duration unit", head + "limits: {revalidate: 5 s}\n", []string{`limits.revalidate: duration "5 s": write it as 5s or 250ms`}},
		{"address", head + "listeners: [{id: 1, address: here}]\n", []string{"f:2:30: listeners[0].address: transport address here is no IP address: write it as 192.0.2.1,"}},
		{"multicast", head + "listeners: [{id: 1, address: 224.0.0.1}]\n", []string{"listeners[0].address: address 224.0.0.1: hosts cannot connect to it"}},
		{"wildcard referral", head + "referrals: [{address: 0.0.0.0}]\n", []string{"referrals[0].address: address 0.0.0.0: hosts cannot connect to it"}},
		{"overlap", head + "listeners:\n- {id: 1, address: 192.0.2.1}\n- {id: 1, address: \"192.0.2.1:4420\"}\n", []string{
			"f:4:8: listeners[1].id: listener 1 is already used by listeners[0].id; give each its own id",
			"f:4:20: listeners[1].address: address 192.0.2.1:4420 is already used by listeners[0].address; give each its own port",
		}},
		{"transports of an address", head + "transport: verbs\nlisteners:\n- {id: 1, address: 192.0.2.1, transport: softroce}\n- {id: 2, address: \"192.0.2.1:4421\"}\n- {id: 3, address: 192.0.2.2}\n", []string{
			"f:5:20: listeners[1].address: another listener of 192.0.2.1 has transport softroce, this one has verbs; give all listeners of an address the same transport"}},
		{"transport", head + "listeners:\n- {id: 1, address: 192.0.2.1, transport: tcp}\n", []string{"f:3:42: listeners[0].transport: tcp is not known; use one of softroce, verbs, auto"}},
		{"ANA state", head + "listeners:\n- id: 1\n  address: 192.0.2.1\n  ana-groups: [{group: 1, state: Optimised}, {group: 129, state: change}]\n", []string{
			"f:5:34: listeners[0].ana-groups[0].state: Optimised is not known; did you mean optimized?",
			"f:5:54: listeners[0].ana-groups[1].group: 129 is too large; at most 128"}},
		{"ANA group twice", head + "listeners:\n- id: 1\n  address: 192.0.2.1\n  ana-groups: [{group: 1, state: change}, {group: 1, state: change}]\n", []string{
			"f:5:51: listeners[0].ana-groups[1].group: ANA group 1 already has a state; keep one"}},
		{"long NQN", listener + "subsystems: [{nqn: " + strings.Repeat("x", 224) + "}]\n", []string{"f:3:20: subsystems[0].nqn: "}},
		{"discovery NQN", listener + "subsystems: [{nqn: " + discoveryNQN + "}]\n", []string{"f:3:20: subsystems[0].nqn: nqn.2014-08.org.nvmexpress.discovery is the name of the discovery subsystem; choose another"}},
		{"two of a name", subsystem("- nqn: nqn.2026-11.org.example:a\n"), []string{
			"f:5:8: subsystems[1].nqn: subsystem nqn.2026-11.org.example:a is already used by subsystems[0].nqn; merge the two, or rename one"}},
		{"serial", subsystem("  serial: 1234\n"), []string{`f:5:11: subsystems[0].serial: is a number, want text; put it in quotes: "1234"`}},
		{"long serial", subsystem("  serial: a23456789012345678901\n"), []string{"f:5:11: subsystems[0].serial: 21 characters are too many; at most 20"}},
		{"model", subsystem("  model: Gerät\n"), []string{"f:5:10: subsystems[0].model: Gerät has characters other than printable ASCII"}},
		{"controller IDs", subsystem("  min-controller-id: 9\n  max-controller-id: 8\n"), []string{
			"f:5:22: subsystems[0].min-controller-id: 9 is more than max-controller-id, which is 8; swap the two"}},
		{"no such listener", subsystem("  listeners: [1, 1, 3]\n"), []string{
			"f:5:18: subsystems[0].listeners[1]: listener 1 is listed twice; keep one",
			"f:5:21: subsystems[0].listeners[2]: there is no listener 3; add the listener, or remove the number"}},
		{"host twice", subsystem("  hosts:\n  - nqn: nqn.2026-11.org.example:h\n  - nqn: nqn.2026-11.org.example:h\n"), []string{
			"f:7:10: subsystems[0].hosts[1].nqn: host nqn.2026-11.org.example:h is already hosts[0]; keep one"}},
		{"access", subsystem("  hosts: [{nqn: h, access: rw}]\n"), []string{"f:5:28: subsystems[0].hosts[0].access: rw is not known; use one of write, read, none"}},
		{"key", subsystem("  hosts: [{nqn: h, key-file: \"DHHC-1:00:xyz:\"}]\n"), []string{
			"f:5:30: subsystems[0].hosts[0].key-file: this is a key: write it to a file of mode 0600, and give the file's path"}},
		{"key path", subsystem("  hosts: [{nqn: h, key-file: \"${DIR/k\"}]\n"), []string{"path ${DIR/k: ${ needs a name and }"}},
		{"controller key alone", subsystem("  hosts: [{nqn: h, controller-key-file: /k}]\n"), []string{
			"subsystems[0].hosts[0].controller-key-file: the target authenticates only to hosts that have a key; add key-file"}},
		{"hash alone", subsystem("  hosts: [{nqn: h, hashes: [sha256]}]\n"), []string{"have no effect for a host without a key"}},
		{"null group", subsystem("  hosts: [{nqn: h, key-file: /k, dh-groups: [null]}]\n"), []string{
			`subsystems[0].hosts[0].dh-groups[0]: is nothing (null), want text; put it in quotes: "null"`}},
		{"right twice", namespace("    memory: {size: 1MiB}\n  hosts: [{nqn: h, namespaces: [{nsid: 1, access: read}, {nsid: 1, access: none}]}]\n"), []string{
			"subsystems[0].hosts[0].namespaces[1].nsid: namespace 1 is listed twice; keep one"}},
		{"nothing exported", namespace("    block-size: 512\n"), []string{"f:6:5: subsystems[0].namespaces[0]: nothing is exported; add file, block, memory or rbd"}},
		{"two exported", namespace("    memory: {size: 1MiB}\n    file: {path: /a}\n"), []string{"file and memory exclude each other; keep one"}},
		{"block size", namespace("    memory: {size: 1MiB}\n    block-size: 1024\n"), []string{"f:8:17: subsystems[0].namespaces[0].block-size: 1024 is not allowed; use 512 or 4096"}},
		{"memory size", namespace("    memory: {size: 1000}\n"), []string{"memory.size: 1KB is not a multiple of the block size"}},
		{"relative", namespace("    file: {path: disk.img}\n"), []string{"f:7:18: subsystems[0].namespaces[0].file.path: path disk.img is relative; give an absolute path"}},
		{"climbing", namespace("    file: {path: /srv/../etc/shadow}\n"), []string{"path /srv/../etc/shadow is not in its shortest form; write /etc/shadow"}},
		{"variable", namespace("    file: {path: \"/srv/${NAME}\"}\n"), []string{"variables are only replaced in the paths of key files; write the path in full"}},
		{"size of read-only", namespace("    file: {path: /a, read-only: true, size: 1MiB}\n"), []string{"file.size: a read-only file cannot have a size; leave it out"}},
		{"UUID", namespace("    memory: {size: 1MiB}\n    uuid: 0\n"), []string{"uuid: is a number, want text"}},
		{"zero UUID", namespace("    memory: {size: 1MiB}\n    uuid: 00000000-0000-0000-0000-000000000000\n"), []string{"want one like 8f7c3c1e-"}},
		{"NGUID", namespace("    memory: {size: 1MiB}\n    nguid: abc\n"), []string{"NGUID abc: want 32 hexadecimal digits, not all zero"}},
		{"nsid twice", namespace("    memory: {size: 1MiB}\n  - nsid: 1\n    memory: {size: 1MiB}\n"), []string{
			"f:8:11: subsystems[0].namespaces[1].nsid: namespace 1 is already namespaces[0]; give it another number"}},
		{"same EUI-64", namespace("    memory: {size: 1MiB}\n    eui64: \"0200000000000001\"\n  - nsid: 2\n    memory: {size: 1MiB}\n    eui64: 02-00-00-00-00-00-00-01\n"), []string{
			"EUI-64 0200000000000001 is already used by subsystems[0].namespaces[0].eui64; hosts would ignore the second of the two: give it another"}},
		{"same file", namespace("    file: {path: /a}\n  - nsid: 2\n    file: {path: /a}\n    shared: true\n"), []string{
			"f:8:5: subsystems[0].namespaces[1]: /a is already exported by subsystems[0].namespaces[0]; if the hosts coordinate their writes, set shared: true in both"}},
		{"same file otherwise", namespace("    file: {path: /a}\n    shared: true\n  - nsid: 2\n    file: {path: /a, thin: true}\n    shared: true\n"), []string{
			"/a is opened only once, but subsystems[0].namespaces[0] has other options for it; give both the same options"}},
		{"referral to itself", listener + "referrals: [{address: 192.0.2.1}]\n", []string{"f:3:23: referrals[0].address: this target itself listens there: a referral names another discovery service; remove it"}},
		{"hash twice", listener + "subsystems: [{nqn: nqn.a, hosts: [{nqn: nqn.h, key-file: /k, hashes: [sha256, sha512, sha256, sha256], dh-groups: [\"null\", \"null\"]}]}]\n",
			[]string{"hosts[0].hashes[2]: sha256 is listed twice; keep one", "hosts[0].dh-groups[1]: null is listed twice"}},
		{"referral twice", listener + "referrals: [{address: 192.0.2.3}, {address: 192.0.2.3, transport: rdma}]\n", []string{"referral 192.0.2.3:4420 is already used by referrals[0].address; keep one"}},

		{"JSON end", "{\"version\": 1,\n", []string{"f:2:1: not JSON: "}},
		{"JSON comma", "{\"version\": 1,}\n", []string{"f:1:15: not JSON: invalid character '}'"}},
		{"JSON rest", "{\"version\": 1} x", []string{"f:1:16: not JSON: "}},
		{"JSON unknown", "{\"version\": 1,\n \"limits\": {\"shard\": 1}}", []string{"f:2:13: limits: unknown field shard; did you mean shards?"}},
		{"JSON twice", "{\"version\": 1, \"version\": 1}", []string{"f:1:16: version: is given twice; the first is in line 1; keep one"}},
		{"JSON deep", "{\"a\":" + strings.Repeat("[", 40), []string{"not JSON: more than 32 nested lists and objects"}},
		{"YAML deep", "a: " + strings.Repeat("[", 1000), []string{"more than 32 nested lists and objects"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantProblems(t, c.text, c.want) })
	}
}

func wantProblems(t *testing.T, text string, want []string) {
	t.Helper()
	_, _, err := Parse("f", []byte(text))
	var got Problems
	if !errors.As(err, &got) {
		t.Fatalf("%v, want problems", err)
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(got), len(want), got)
	}
	for i := range min(len(got), len(want)) {
		if !strings.Contains(got[i].String(), want[i]) {
			t.Errorf("%q, want %q", got[i].String(), want[i])
		}
	}
}

// TestWarnings checks the warnings about settings that work but may not be intended.
func TestWarnings(t *testing.T) {
	const (
		listener = "version: 1\nlisteners: [{id: 1, address: 192.0.2.1}]\n"
		form     = "NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, the domain in reverse, as in nqn.2014-08.org.example:disk; rename it"
	)
	for text, want := range map[string]string{
		"version: 1\n": "no host can connect: there is no listener; add listeners, unless this is for the gateways of a group",
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a}]\n":                                                                                                               "f:3:15: subsystems[0]: no host may connect to nqn.2026-11.org.example:a; add hosts",
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a, allow-any-host: true}]\n":                                                                                         "f:3:63: subsystems[0].allow-any-host: every host that can reach the address",
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a, hosts: [{nqn: nqn.2026-11.org.example:h, namespaces: [{nsid: 2, access: none}]}]}]\n":                             "a has no namespace 2; check the number",
		listener + "subsystems: [{nqn: a, hosts: [{nqn: nqn.2026-11.org.example:h}]}]\n":                                                                                            "f:3:20: subsystems[0].nqn: a: " + form,
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a, hosts: [{nqn: h}]}]\n":                                                                                            "f:3:61: subsystems[0].hosts[0].nqn: h: " + form,
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a, hosts: [{nqn: 'nqn.2014-08.org.nvmexpress:uuid:1'}]}]\n":                                                          "NQN is not of the form nqn.2014-08.org.nvmexpress:uuid:UUID; rename it",
		listener + "subsystems: [{nqn: nqn.2026-11.org.example:a, hosts: [{nqn: 'nqn.2026-11.org.example:h'}], namespaces: [{nsid: 1, memory: {size: 1MiB}, reservations: /r}]}]\n": "namespaces[0].reservations: memory has a new identity at each start",
		listener + "discovery-nqn: d\n":                          "f:3:16: discovery-nqn: d: " + form,
		listener + "referrals: [{address: 192.0.2.2, nqn: r}]\n": "f:3:39: referrals[0].nqn: r: " + form,
	} {
		_, warnings, err := Parse("f", []byte(text))
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) {
			t.Errorf("%v, %v, want %q", warnings, err, want)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRoundTrip: the canonical text parses to the same document, in both forms.
func TestRoundTrip(t *testing.T) {
	doc, warnings, err := Parse("target.yaml", read(t, "testdata/target.yaml"))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if want := string(read(t, "testdata/canonical.yaml")); string(doc.YAML()) != want {
		t.Errorf("YAML is\n%s\nwant\n%s", doc.YAML(), want)
	}
	for name, text := range map[string][]byte{"YAML": doc.YAML(), "JSON": doc.JSON()} {
		again, _, err := Parse(name, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if string(again.JSON()) != string(doc.JSON()) {
			t.Errorf("%s parses to\n%s\nwant\n%s", name, again.JSON(), doc.JSON())
		}
	}
}

func TestQuotes(t *testing.T) {
	for _, s := range []string{"a", "null", "No", "1", "1.5", "0x1f", "1e5", "10GiB", "a: b", "a:b", "a #b", "- a", "~", "", " a ", "é", "a\nb", "\"", `\`,
		"2026-11-21", "12:30", "192.0.2.1:4420", "[::1]:4420", "${A}/b", "{a}", "!a", "&a", "*a", "%a", "@a", "`a`", ":", "a:", "<<", "=", "?", "|", ">", "\u2028"} {
		n, p := parseYAML(fmt.Appendf(nil, "a: %s\nb: [%s]\n", quote(s), quote(s)))
		if p != nil {
			t.Errorf("%q is written %s: %v", s, quote(s), p)
			continue
		}
		for _, v := range []*node{n.fields[0].value, n.fields[1].value.items[0]} {
			if v.kind != kindText || v.text != s {
				t.Errorf("%q is written %s, which is %v %q", s, quote(s), v.kind, v.text)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	expression, _ := (*Size)(nil).pattern()
	schema := regexp.MustCompile(expression)
	parse := func(text string) (s Size, err error) {
		err = s.UnmarshalText([]byte(text))
		return s, err
	}
	for text, want := range map[string]string{
		"4096": "4KiB", "4k": "4KiB", "4K": "4KiB", "1G": "1GiB", "1g": "1GiB", "2m": "2MiB", "3t": "3TiB", "7B": "7", "512MiB": "512MiB",
		"10GB": "10GB", "1000": "1KB", "1536": "1536", "1048576": "1MiB", "1024GiB": "1TiB",
	} {
		if s, err := parse(text); err != nil || s.String() != want {
			t.Errorf("%s is %v, %v, want %s", text, s, err, want)
		}
		if !schema.MatchString(text) {
			t.Errorf("the schema has no %s", text)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "k", "1.5k", "99999999999G", "1GiBs", "1Gi", "1gib", "0x10", "1 g", "010", "08MiB"} {
		if s, err := parse(text); err == nil {
			t.Errorf("%q is %v, want an error", text, s)
		}
		if text != "99999999999G" && schema.MatchString(text) {
			t.Errorf("the schema has %q", text)
		}
	}
}

func TestExpand(t *testing.T) {
	env := func(name string) string { return map[string]string{"DIR": "/run/keys", "REL": "keys"}[name] }
	for text, want := range map[string]string{
		"${DIR}/k": "/run/keys/k", "/a/b": "/a/b", "${NONE}/k": "the environment variable NONE", "${REL}/k": "is relative", "${}/k": "needs a name",
	} {
		got, err := KeyFile(text).Expand(env)
		if got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// FuzzParse: no text causes a panic, and a document survives a round trip.
func FuzzParse(f *testing.F) {
	f.Add(read(f, "testdata/target.yaml"))
	f.Add(read(f, "testdata/canonical.yaml"))
	f.Add([]byte(`{"version": 1, "limits": {"shards": 2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, _, err := Parse("f", text)
		if err != nil {
			_ = err.Error()
			return
		}
		for _, form := range [][]byte{doc.YAML(), doc.JSON()} {
			again, _, err := Parse("again", form)
			if err != nil || string(again.JSON()) != string(doc.JSON()) {
				t.Fatalf("%v\n%s\nfrom\n%q", err, form, text)
			}
		}
	})
}

// TestMerge: a given field replaces the old value, null selects the default, and the rest is kept. The original of
// a clone is not changed.
func TestMerge(t *testing.T) {
	doc := parsed(t, base)
	n := doc.Clone().Subsystems[0].Namespaces[0]
	if err := Merge("m", []byte(`{"file": {"size": "1GiB"}, "ana-group": 3}`), n); err != nil {
		t.Fatal(err)
	}
	if n.File.Path != "/a1" || n.File.Size != 1<<30 || n.ANAGroup != 3 || n.NSID != 1 {
		t.Errorf("merged to\n%s", YAML(n))
	}
	if err := Merge("m", []byte(`{"file": {"size": null}, "ana-group": null}`), n); err != nil || n.File.Size != 0 || n.ANAGroup != 0 {
		t.Errorf("%v\n%s", err, YAML(n))
	}
	if err := Merge("m", []byte(`{"file": {"sice": 1}}`), n); err == nil || !strings.Contains(err.Error(), "m:1:11: file: unknown field sice; did you mean size?") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		`{"nsid": null}`:             "nsid: has no default",
		`{"file": {"path": null}}`:   "file.path: has no default",
		`{"memory": {}}`:             "memory: size is missing",
		`{"block": {"force": true}}`: "block: path is missing",
	} {
		if err := Merge("m", []byte(text), n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := Merge("m", []byte(`{"file": null, "memory": {"size": "1MiB"}}`), doc.Clone().Subsystems[0].Namespaces[0]); err != nil {
		t.Error(err)
	}
	if string(doc.YAML()) != base {
		t.Errorf("the original is\n%s", doc.YAML())
	}
}

// TestReservationsExported: an exported file cannot also have reservations.
func TestReservationsExported(t *testing.T) {
	doc := parsed(t, base)
	for _, n := range doc.Subsystems[0].Namespaces {
		n.Reservations = "/a1"
		if _, err := doc.Check(); err == nil || !strings.Contains(err.Error(), "reservations: /a1 is exported by subsystems[0].namespaces[0]; name another file") {
			t.Errorf("%v", err)
		}
		n.Reservations = "/r"
		if _, err := doc.Check(); err != nil {
			t.Error(err)
		}
		n.Reservations = ""
	}
}

// TestStateIsAFileOfItsOwn: a state file is neither exported nor another record.
func TestStateIsAFileOfItsOwn(t *testing.T) {
	doc := parsed(t, base)
	s := doc.Subsystems[0]
	s.State = "/a1"
	if _, err := doc.Check(); err == nil || !strings.Contains(err.Error(), "subsystems[0].state: /a1 is exported by subsystems[0].namespaces[0]; name another file") {
		t.Errorf("%v", err)
	}
	s.State, s.Namespaces[0].Reservations = "/r", "/r"
	if _, err := doc.Check(); err == nil || !strings.Contains(err.Error(), "subsystems[0].namespaces[0].reservations: /r is also used as subsystems[0].state; name another file") {
		t.Errorf("%v", err)
	}
	s.State = "/s"
	if _, err := doc.Check(); err != nil {
		t.Error(err)
	}
}

func TestConsole(t *testing.T) {
	for text, want := range map[string]string{
		"{listen: '127.0.0.1:9430', tokens: /t}":                                "",
		"{listen: '[::1]:9430', tokens: /t}":                                    "",
		"{listen: '0.0.0.0:9430', tokens: /t, tls: {certificate: /c, key: /k}}": "",
		"{listen: '0.0.0.0:9430', tokens: /t}":                                  "console.tls: tokens would be sent to 0.0.0.0 unencrypted; name a certificate",
		"{listen: '192.0.2.1:9430', tokens: /t, tls: {certificate: /c}}":        "console.tls: a certificate without its key",
		"{listen: '127.0.0.1:9430'}":                                            "console.tokens: is missing; name a file that nvmeof token create has written",
		"{tokens: /t}":                                                          "console.listen: is missing",
		"{listen: '127.0.0.1:9', tokens: /t}\nmetrics: {listen: '127.0.0.1:9'}": "console.listen: 127.0.0.1:9 is also used as metrics.listen",
	} {
		_, _, err := Parse("", []byte("version: 1\nconsole: "+text))
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestReportsAreFilesOfTheirOwn: the files of events and of the audit are neither exported, nor records, nor the
// same file.
func TestReportsAreFilesOfTheirOwn(t *testing.T) {
	const served = "subsystems: [{nqn: nqn.a, state: /state, namespaces: [{nsid: 1, file: {path: /disk}, reservations: /kept}]}]\n"
	for text, want := range map[string]string{
		"audit: {file: /disk}\n":                            "audit.file: /disk is also used as subsystems[0].namespaces[0]; name another file",
		"events: {file: /state}\n":                          "events.file: /state is also used as subsystems[0].state",
		"events: {file: /kept}\n":                           "events.file: /kept is also used as subsystems[0].namespaces[0].reservations",
		"events: {file: /log}\naudit: {file: /log}\n":       "audit.file: /log is also used as events.file",
		"events: {file: /events}\naudit: {file: /log}\n":    "",
		"audit: {log: true}\n":                              "",
		"console: {listen: '127.0.0.1:9', tokens: /disk}\n": "console.tokens: /disk is also used as subsystems[0].namespaces[0]",
		"console: {listen: '192.0.2.1:9', tokens: /t, tls: {certificate: /c, key: /kept}}\n": "console.tls.key: /kept is also used as",
		"console: {listen: '192.0.2.1:9', tokens: /t, tls: {certificate: /c, key: /c}}\n":    "",
	} {
		_, _, err := Parse("", []byte("version: 1\n"+served+text))
		if got := fmt.Sprint(err); want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, " is also used as ") {
			t.Errorf("%s%v", text, err)
		}
	}
}

// TestManyProblems: for a list that is faulty throughout, only the first problems are reported.
func TestManyProblems(t *testing.T) {
	var found Problems
	_, _, err := Parse("", []byte("version: 1\nsubsystems: ["+strings.Repeat("0,", 10*maxProblems)+"0]\n"))
	if !errors.As(err, &found) || len(found) != maxProblems {
		t.Errorf("%d problems", len(found))
	}
}

// TestKeysAreNotExported: a host could read and write an exported key.
func TestKeysAreNotExported(t *testing.T) {
	for namespace, want := range map[string]string{
		"file: {path: /key}":                          "subsystems[0].namespaces[0]: /key is also used as subsystems[0].hosts[0].key-file; name another file",
		"block: {path: /own}":                         "subsystems[0].namespaces[0]: /own is also used as subsystems[0].hosts[0].controller-key-file",
		"memory: {size: 1MiB}, reservations: /key":    "subsystems[0].namespaces[0].reservations: /key is also used as",
		"file: {path: /disk}, reservations: /key.res": "",
	} {
		text := "version: 1\nsubsystems: [{nqn: nqn.a, hosts: [{nqn: nqn.h, key-file: /key, controller-key-file: /own}], namespaces: [{nsid: 1, " + namespace + "}]}]\n"
		_, _, err := Parse("", []byte(text))
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

// TestImages checks two namespaces with one image, and a size for a read-only one.
func TestImages(t *testing.T) {
	const head = "version: 1\nlisteners: [{id: 1, address: 192.0.2.1}]\nsubsystems:\n- nqn: nqn.2026-01.org.example:a\n  namespaces:\n"
	for text, want := range map[string]string{
		"  - {nsid: 1, rbd: {image: p/i}}\n  - {nsid: 2, rbd: {image: p/i}}\n": "rbd:p/i is already exported by",
		"  - {nsid: 1, rbd: {image: p/i@s, size: 1GiB}}\n":                     "a read-only image cannot have a size",
		"  - {nsid: 1, rbd: {image: p/i, size: 1GiB, read-only: true}}\n":      "a read-only image cannot have a size",
		"  - {nsid: 1, rbd: {image: p/i}, memory: {size: 1MiB}}\n":             "memory and rbd exclude each other",
		"  - {nsid: 1, rbd: {image: p/i, conf: /etc/ceph/a.conf, id: nvme}}\n": "",
	} {
		_, _, err := Parse("f", []byte(head+text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
