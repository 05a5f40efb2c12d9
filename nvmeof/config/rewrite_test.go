package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const commented = `# what we export
---
version: 1   # of the format

limits: {shards: 2, in-capsule: 8KiB}  # small machine
listeners:
  # the fast card
  - id: 1
    address: '192.0.2.1'

subsystems:
  - nqn: a # first
    hosts: # who may
    - nqn: h1
      access: read   # not more
    # the backup server
    - nqn: "h2"
    namespaces:
      # database
      - nsid: 1
        file:
          path: /srv/a1
          size: 1GiB # grows
          # thin: true
        ana-group: 2

      # logs
      - {nsid: 2, memory: {size: 1MiB}} # é lost
      # - nsid: 3
      #   memory: {size: 2MiB}

  # scratch
  - nqn: b
    listeners: [1]
    namespaces: [{nsid: 1, memory: {size: 1MiB}}]
# the end
`

// TestRewrite: only what differs changes.
func TestRewrite(t *testing.T) {
	sub := func(d *Document, i int) *Subsystem { return d.Subsystems[i] }
	for _, c := range []struct {
		name     string
		change   func(*Document)
		old, new string // pairs of one text and another, apart from which all stays
	}{
		{"nothing", func(*Document) {}, "", ""},
		{"a value", func(d *Document) { sub(d, 0).Namespaces[0].File.Size = 2 << 30 }, "size: 1GiB # grows", "size: 2GiB # grows"},
		{"a value in brackets", func(d *Document) { sub(d, 0).Namespaces[1].Memory.Size = 4 << 20 }, "{nsid: 2, memory: {size: 1MiB}} # é", "{nsid: 2, memory: {size: 4MiB}} # é"},
		{"a field goes", func(d *Document) { sub(d, 0).Hosts[0].Access = "" }, "      access: read   # not more\n", ""},
		{"a field comes", func(d *Document) { sub(d, 0).Hosts[1].Access = "read" }, "\"h2\"\n", "\"h2\"\n      access: read\n"},
		{"a field comes between", func(d *Document) { sub(d, 0).Namespaces[0].ReadOnly = true }, "          # thin: true\n", "          # thin: true\n        read-only: true\n"},
		{"a field comes deep", func(d *Document) { sub(d, 0).Namespaces[0].File.Thin = true }, " # grows\n", " # grows\n          thin: true\n"},
		{"a field comes in brackets", func(d *Document) { sub(d, 0).Namespaces[1].ReadOnly = true }, "{nsid: 2, memory: {size: 1MiB}} # é", "{nsid: 2, memory: {size: 1MiB}, read-only: true} # é"},
		{"a field goes in brackets", func(d *Document) { d.Limits.Shards = 0 }, "{shards: 2, in-capsule: 8KiB}", "{in-capsule: 8KiB}"},
		{"an object goes", func(d *Document) { d.Limits = Limits{} }, "limits: {shards: 2, in-capsule: 8KiB}  # small machine\n", ""},
		{"an item comes", func(d *Document) {
			sub(d, 0).Namespaces = append(sub(d, 0).Namespaces, &Namespace{NSID: 4, Block: &Block{Path: "/dev/x"}})
		}, " # é lost\n", " # é lost\n      - nsid: 4\n        block:\n          path: /dev/x\n"},
		{"an item comes first", func(d *Document) {
			d.Listeners = append([]*Listener{{ID: 9, Address: d.Listeners[0].Address}}, d.Listeners...)
		}, "listeners:\n", "listeners:\n  - id: 9\n    address: 192.0.2.1:4420\n"},
		{"an item comes in brackets", func(d *Document) {
			sub(d, 1).Namespaces = append(sub(d, 1).Namespaces, &Namespace{NSID: 2, Memory: &Memory{1 << 20}})
		}, "{nsid: 1, memory: {size: 1MiB}}]", "{nsid: 1, memory: {size: 1MiB}}, {nsid: 2, memory: {size: 1MiB}}]"},
		{"an item goes with what was said of it", func(d *Document) { sub(d, 0).Namespaces = sub(d, 0).Namespaces[1:] },
			commented[strings.Index(commented, "      # database") : strings.Index(commented, "\n      # logs")+1], ""},
		{"the last item goes", func(d *Document) { sub(d, 0).Namespaces = sub(d, 0).Namespaces[:1] }, "      # logs\n      - {nsid: 2, memory: {size: 1MiB}} # é lost\n", ""},
		{"all items go, others are commented out", func(d *Document) { sub(d, 0).Namespaces = nil },
			commented[strings.Index(commented, "    namespaces:"):strings.Index(commented, "      # - nsid: 3")], "    namespaces: []\n\n"},
		{"all items go", func(d *Document) { sub(d, 0).Hosts = nil },
			commented[strings.Index(commented, "    hosts:"):strings.Index(commented, "    namespaces:")], ""},
		{"a subsystem goes", func(d *Document) { d.Subsystems = d.Subsystems[:1] },
			commented[strings.Index(commented, "  # scratch"):strings.Index(commented, "# the end")], ""},
		{"items change places", func(d *Document) { slices.Reverse(sub(d, 0).Hosts) },
			"    - nqn: h1\n      access: read   # not more\n    # the backup server\n    - nqn: \"h2\"\n", "    # the backup server\n    - nqn: \"h2\"\n    - nqn: h1\n      access: read   # not more\n"},
		{"a list of numbers", func(d *Document) { sub(d, 1).Listeners = []int{1, 2} }, "[1]", "[1, 2]"},
		{"a new list", func(d *Document) { d.Referrals = []*Referral{{Address: d.Listeners[0].Address}} },
			"size: 1MiB}}]\n", "size: 1MiB}}]\nreferrals:\n  - address: 192.0.2.1:4420\n"},
		{"another kind", func(d *Document) {
			sub(d, 0).Namespaces[0].File, sub(d, 0).Namespaces[0].Memory = nil, &Memory{1 << 20}
		}, "        file:\n          path: /srv/a1\n          size: 1GiB # grows\n          # thin: true\n", "        memory:\n          size: 1MiB\n"},
	} {
		doc := parsed(t, commented)
		c.change(doc)
		if strings.Count(commented, c.old) != 1 && c.old != "" {
			t.Fatalf("%s: %q is there %d times", c.name, c.old, strings.Count(commented, c.old))
		}
		want := strings.Replace(commented, c.old, c.new, 1)
		if got, _ := Rewrite([]byte(commented), doc); string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
		crlf := strings.ReplaceAll(commented, "\n", "\r\n")
		if got, _ := Rewrite([]byte(crlf), doc); string(got) != strings.ReplaceAll(want, "\n", "\r\n") {
			t.Errorf("%s with CR LF:\n%q", c.name, got)
		}
	}
}

// rewriteEdits change a document with two subsystems in every way that a command can.
var rewriteEdits = map[string]func(*Document){
	"target":       func(d *Document) { d.DiscoveryNQN, d.Limits.Shards, d.Limits.Queues = "nqn.x", 3, 7 },
	"listener":     func(d *Document) { d.Listeners[0].Address = parsedAddress("192.0.2.77:4421") },
	"ana":          func(d *Document) { d.Listeners[0].ANAGroups = append(d.Listeners[0].ANAGroups, &ANAGroup{9, "change"}) },
	"no listeners": func(d *Document) { d.Listeners = nil; d.Subsystems[1].Listeners = nil },
	"names":        func(d *Document) { d.Subsystems[0].NQN, d.Subsystems[1].NQN = d.Subsystems[1].NQN, d.Subsystems[0].NQN },
	"fields":       func(d *Document) { d.Subsystems[0].Serial, d.Subsystems[0].AllowAnyHost = "# 1", true },
	"hosts": func(d *Document) {
		d.Subsystems[0].Hosts = []*Host{{NQN: "x", Hashes: []Hash{"sha512", "sha256"}, KeyFile: "/k"}}
	},
	"rights": func(d *Document) {
		d.Subsystems[0].Hosts[0].Namespaces = []*Right{{NSID: 2, Access: "none"}, {NSID: 1, Access: "read"}}
	},
	"namespaces": func(d *Document) {
		d.Subsystems[0].Namespaces = slices.Insert(d.Subsystems[0].Namespaces, 1, &Namespace{NSID: 77, Memory: &Memory{4096}})
	},
	"swap":  func(d *Document) { slices.Reverse(d.Subsystems); slices.Reverse(d.Subsystems[1].Namespaces) },
	"empty": func(d *Document) { d.Subsystems, d.Referrals = nil, nil },
	"kinds": func(d *Document) {
		for _, s := range d.Subsystems {
			for _, n := range s.Namespaces {
				n.File, n.Block, n.Memory = nil, &Block{Path: "/dev/x", Force: true}, nil
			}
		}
	},
}

func parsedAddress(s string) (a Address) {
	if err := a.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return a
}

// TestRewriteAll: every edit of every text can be made, in each form.
func TestRewriteAll(t *testing.T) {
	example, err := os.ReadFile("../../deploy/target.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"commented": commented, "example": string(example),
		"canonical": string(parsed(t, commented).YAML()), "json": string(parsed(t, commented).JSON()), "example.json": string(parsed(t, string(example)).JSON()),
		"flow": "version: 1\nlisteners: [{id: 1, address: 192.0.2.1}]\nsubsystems: [{nqn: a, hosts: [{nqn: h1}], namespaces: [{nsid: 1, memory: {size: 1MiB}},\n  {nsid: 2, memory: {size: 1MiB}}]}, # two\n  {nqn: b}]"} {
		for what, change := range rewriteEdits {
			doc := parsed(t, text)
			change(doc)
			got, kept := Rewrite([]byte(text), doc)
			if !kept {
				t.Errorf("%s, %s: cannot be changed to\n%s", name, what, doc.YAML())
				continue
			}
			if again := new(Document); ParsePart("", got, again) != nil || string(again.JSON()) != string(doc.JSON()) {
				t.Errorf("%s, %s:\n%s", name, what, got)
			}
			if strings.HasSuffix(name, "json") && string(got) != string(doc.JSON()) {
				t.Errorf("%s, %s: not as JSON is written:\n%s\nwant\n%s", name, what, got, doc.JSON())
			}
			if _, kept := Rewrite(got, parsed(t, text)); !kept {
				t.Errorf("%s, %s: cannot be changed back:\n%s", name, what, got)
			}
		}
	}
}

// TestRewriteNot: what cannot be edited is written anew.
func TestRewriteNot(t *testing.T) {
	doc := parsed(t, commented)
	for text, want := range map[string]string{
		"":                           string(doc.YAML()),
		"version: [":                 string(doc.YAML()),
		"{\"version\": ":             string(doc.JSON()),
		"version:\n  1\nserial: x\n": string(doc.YAML()),
		"version: 1\nlisteners:\n- id: 1\n  address:\n    |-\n    192.0.2.2\n": string(doc.YAML()),
	} {
		if got, kept := Rewrite([]byte(text), doc); kept || string(got) != want {
			t.Errorf("%q: kept %v:\n%s", text, kept, got)
		}
	}
}

// FuzzRewrite: whatever the layout, the result is the document that was wanted, or none.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(commented))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, _, err := Parse("f", text)
		if err != nil {
			return
		}
		if got, kept := Rewrite(text, doc); kept && string(got) != string(text) {
			t.Fatalf("nothing to change:\n%q\n%q", text, got)
		}
		for _, change := range rewriteEdits {
			want := doc.Clone()
			if len(want.Subsystems) < 2 || len(want.Listeners) == 0 || len(want.Subsystems[0].Hosts) == 0 || len(want.Subsystems[0].Namespaces) == 0 {
				return
			}
			change(want)
			Rewrite(text, want)
		}
	})
}

// TestByteOrderMark: a mark with which editors begin a file is no part of the document, and stays in the file.
func TestByteOrderMark(t *testing.T) {
	const mark = "\ufeff"
	doc := parsed(t, commented)
	for _, text := range []string{commented, string(doc.JSON())} {
		if got := parsed(t, mark+text); string(got.JSON()) != string(doc.JSON()) {
			t.Errorf("with a mark it is\n%s", got.JSON())
		}
		if EndsInLine([]byte(mark+text)) != EndsInLine([]byte(text)) {
			t.Errorf("with a mark it may have been cut short: %v", EndsInLine([]byte(mark+text)))
		}
		if got, kept := Rewrite([]byte(mark+text), doc); !kept || string(got) != mark+text {
			t.Errorf("kept %v:\n%s", kept, got)
		}
	}
	if _, _, err := Parse("", []byte(mark+mark+commented)); err == nil {
		t.Error("two marks are one")
	}
}

// TestControlsInPaths: what a terminal obeys is escaped in what is shown of a path, and is the path again where that is read.
func TestControlsInPaths(t *testing.T) {
	doc := parsed(t, commented)
	doc.Subsystems[0].Namespaces[0].File.Path = "/a\u009b1m\u007f\u0085b\n"
	for _, text := range [][]byte{doc.YAML(), doc.JSON()} {
		if !strings.Contains(string(text), `"/a\u009b1m\u007f\u0085b\n"`) {
			t.Errorf("it is shown as %q", text)
		}
		if got := parsed(t, string(text)); got.Subsystems[0].Namespaces[0].File.Path != doc.Subsystems[0].Namespaces[0].File.Path {
			t.Errorf("it is read as %q", got.Subsystems[0].Namespaces[0].File.Path)
		}
	}
}
