package config

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// base is the document that the cases of TestDiff change.
const base = `version: 1
listeners:
  - id: 1
    address: 192.0.2.1:4420
    ana-groups:
      - group: 2
        state: inaccessible
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
      - nqn: h2
        access: read
    namespaces:
      - nsid: 1
        file:
          path: /a1
      - nsid: 2
        memory:
          size: 1MiB
referrals:
  - address: 192.0.2.9:4420
`

func parsed(t *testing.T, text string) *Document {
	t.Helper()
	doc, _, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc
}

func show(changes []Change) (lines []string) {
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return lines
}

// TestDiff checks the changes between two documents and their order. The reverse has the inverse of each.
func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name string
		edit []string // pairs of old and new text
		want []string
	}{
		{"nothing", nil, nil},
		{"defaults written out", []string{"version: 1\n", "version: 1\ntransport: softroce\nlimits: {queues: 128}\n", "- nqn: h1", "- nqn: h1\n        access: write"}, nil},
		{"limits", []string{"version: 1\n", "version: 1\nlimits: {queues: 8}\n"}, []string{"change target: limits.queues 128 -> 8"}},
		{"listener added", []string{"subsystems:\n", "  - {id: 2, address: \"192.0.2.1:4421\"}\nsubsystems:\n"}, []string{"add listener 2"}},
		{"listener moved", []string{"192.0.2.1:4420", "192.0.2.1:4430"}, []string{
			"remove listener 1 (is added again with another address)", "add listener 1"}},
		{"ANA", []string{"group: 2\n        state: inaccessible", "group: 3\n        state: change"}, []string{
			"change ana-group 2 of listener 1: state inaccessible -> optimized", "change ana-group 3 of listener 1: state optimized -> change"}},
		{"host", []string{"h1", "h3", "access: read", "access: none"}, []string{
			"remove host h1 of a", "change host h2 of a: access read -> none", "add host h3 of a"}},
		{"any host", []string{"  - nqn: a\n", "  - nqn: a\n    allow-any-host: true\n    listeners: [1]\n"}, []string{
			"change subsystem access of a: allow-any-host false -> true, listeners default -> [1]"}},
		{"read-only", []string{"- nsid: 2\n", "- nsid: 2\n        read-only: true\n        ana-group: 4\n"}, []string{
			"change namespace 2 of a: read-only false -> true, ana-group 1 -> 4"}},
		{"grown", []string{"/a1", "/a1\n          size: 1GiB\n        ana-group: 2"}, []string{
			"change namespace 1 of a: ana-group 1 -> 2", "change size of namespace 1 of a: file.size default -> 1GiB"}},
		{"another file", []string{"/a1", "/a3"}, []string{
			"remove namespace 1 of a (is added again with another file.path)", "add namespace 1 of a"}},
		{"memory resized", []string{"memory:\n          size: 1MiB", "memory:\n          size: 2MiB"}, []string{
			"remove namespace 2 of a (is added again with another memory.size); its data is lost", "add namespace 2 of a"}},
		{"memory of another name", []string{"- nsid: 2\n", "- nsid: 2\n        uuid: 11111111-2222-3333-4444-555555555555\n"}, []string{
			"remove namespace 2 of a (is added again with another uuid)", "add namespace 2 of a"}},
		{"serial", []string{"  - nqn: a\n", "  - nqn: a\n    serial: s\n"}, []string{"change subsystem a: serial default -> s"}},
		{"subsystem renamed", []string{"- nqn: a\n", "- nqn: b\n"}, []string{
			"remove host h1 of a", "remove host h2 of a",
			"remove namespace 1 of a", "remove namespace 2 of a; its data is lost",
			"add subsystem b", "add namespace 1 of b", "add namespace 2 of b", "add host h1 of b", "add host h2 of b", "remove subsystem a"}},
		{"exposed", []string{"- nqn: a\n", "- nqn: b\n    allow-any-host: true\n    listeners: [1]\n"}, []string{
			"remove host h1 of a", "remove host h2 of a",
			"remove namespace 1 of a", "remove namespace 2 of a; its data is lost",
			"add subsystem b", "add namespace 1 of b", "add namespace 2 of b", "add host h1 of b", "add host h2 of b",
			"change subsystem access of b: allow-any-host false -> true", "remove subsystem a"}},
		{"referral", []string{"192.0.2.9:4420", "192.0.2.8:4420"}, []string{"remove referral 192.0.2.9:4420", "add referral 192.0.2.8:4420"}},
		{"referral secured", []string{"192.0.2.9:4420", "192.0.2.9:4420\n    secure: true"}, []string{
			"remove referral 192.0.2.9:4420 (is added again with another secure)", "add referral 192.0.2.9:4420"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := parsed(t, base), parsed(t, strings.NewReplacer(c.edit...).Replace(base))
			got := Diff(from, to)
			if lines := show(got); !slices.Equal(lines, c.want) {
				t.Errorf("changes\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
			wantInverse(t, got, Diff(to, from))
		})
	}
}

// TestListenersComeLast: listeners open when everything that hosts see is there; only what cannot be undone comes
// later.
func TestListenersComeLast(t *testing.T) {
	got := show(Diff(new(Document), parsed(t, base)))
	if last := len(got) - 1; got[last] != "add listener 1" {
		t.Errorf("the first start is\n%s", strings.Join(got, "\n"))
	}
	more := strings.NewReplacer("subsystems:\n", "  - {id: 2, address: \"192.0.2.1:4421\"}\nsubsystems:\n", "/a1", "/a1\n          size: 1GiB",
		"- nqn: h1\n", "- nqn: h3\n", "192.0.2.9", "192.0.2.8", "- nsid: 2\n", "- nsid: 3\n").Replace(base)
	got = show(Diff(parsed(t, base), parsed(t, more)))
	if last := len(got) - 1; got[last-1] != "add listener 2" || !strings.HasPrefix(got[last], "change size") {
		t.Errorf("a change is\n%s", strings.Join(got, "\n"))
	}
}

// TestSubsystemsLeaveLast: what hosts have set in a subsystem is kept until nothing can fail any more, unless
// another subsystem needs its state file.
func TestSubsystemsLeaveLast(t *testing.T) {
	const more = "version: 1\nsubsystems:\n- nqn: a\n  state: /s\n  namespaces: [{nsid: 1, file: {path: /a}}]\n- nqn: b\n  namespaces: [{nsid: 1, file: {path: /b, size: 1MiB}}]\n"
	from := parsed(t, more)
	grown := parsed(t, strings.Replace(more, "1MiB", "2MiB", 1))
	grown.Subsystems = grown.Subsystems[1:]
	want := []string{"remove namespace 1 of a", "change size of namespace 1 of b: file.size 1MiB -> 2MiB", "remove subsystem a"}
	if got := show(Diff(from, grown)); !slices.Equal(got, want) {
		t.Errorf("changes are %q", got)
	}
	grown.Subsystems[0].State = "/s"
	want = []string{"remove namespace 1 of a", "remove subsystem a", "change subsystem b: state default -> /s", want[1]}
	if got := show(Diff(from, grown)); !slices.Equal(got, want) {
		t.Errorf("changes are %q", got)
	}
}

// wantInverse checks that two lists have the same steps in opposite directions.
func wantInverse(t *testing.T, there, back []Change) {
	t.Helper()
	var want []string
	for _, c := range there {
		c = c.Inverse()
		c.Cause, c.Loses = "", false
		want = append(want, c.String())
	}
	var got []string
	for _, c := range back {
		c.Cause, c.Loses = "", false
		got = append(got, c.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the way back is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestManyNamespaces: what every change of a running target does with its document takes milliseconds for 10,000
// namespaces, and reading takes time in proportion to the length of the text.
func TestManyNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("it bounds processor time, of which the race detector takes several times as much")
	}
	doc := &Document{Version: Version}
	for i := range 10 {
		s := &Subsystem{NQN: nvmeof.NQN(fmt.Sprint("n", i)), Hosts: []*Host{{NQN: "h"}}}
		for nsid := range 1000 {
			s.Namespaces = append(s.Namespaces, &Namespace{NSID: nsid + 1, Memory: &Memory{1 << 20}})
		}
		doc.Subsystems = append(doc.Subsystems, s)
	}
	begin := processorTime(t)
	for range 10 { // 10 to 20 ms each; 0.4 s when the copy was made by encoding and decoding
		want := doc.Clone()
		want.Subsystems[3].Namespaces = append(want.Subsystems[3].Namespaces, &Namespace{NSID: 1001, Memory: &Memory{1 << 20}})
		if _, err := want.Check(); err != nil {
			t.Fatal(err)
		}
		if changes := Diff(doc, want); len(changes) != 1 || len(doc.Subsystems[3].Namespaces) != 1000 {
			t.Fatalf("%v", changes)
		}
	}
	for range 2 { // 0.1 s each; 0.4 s when lines were counted from the beginning for each token
		if got, _, err := Parse("t", doc.JSON()); err != nil || len(Diff(doc, got)) > 0 {
			t.Fatal(err)
		}
	}
	if d := processorTime(t) - begin; d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

// processorTime returns the CPU time of the process, which other processes do not affect.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestClone: a copy is complete, and shares nothing.
func TestClone(t *testing.T) {
	doc := parsed(t, base)
	text := string(doc.JSON())
	c := doc.Clone()
	if string(c.JSON()) != text {
		t.Errorf("the copy is\n%s", c.JSON())
	}
	c.Limits.Shards = 60
	for _, l := range c.Listeners {
		l.ID += 10
		for _, g := range l.ANAGroups {
			g.State = "change"
		}
	}
	for _, s := range c.Subsystems {
		for _, h := range s.Hosts {
			h.NQN, h.Hashes = "other", append(h.Hashes[:0], "sha512")
		}
		for _, n := range s.Namespaces {
			n.NSID++
			if n.File != nil {
				n.File.Path = "/other"
			}
		}
	}
	if string(doc.JSON()) != text {
		t.Errorf("the copy shares something:\n%s", doc.JSON())
	}
}
