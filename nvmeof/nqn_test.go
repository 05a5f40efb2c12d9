package nvmeof

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestParseNQN(t *testing.T) {
	long := "nqn.2014-08.org.example:" + strings.Repeat("n", capsule.MaxNQN-24)
	cases := []struct {
		in   string
		want error
	}{
		{string(DiscoveryNQN), nil},
		{"nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", nil},
		{"nqn.2024-12.com.example-1:disk.01_ä 1", nil},
		{"nqn.2024-12.com.example", nil},
		{long, nil},
		{long + "n", capsule.ErrNQNLong},
		{"", capsule.ErrNQNEmpty},
		{"testnqn", ErrNQNForm},
		{"NQN.2024-12.com.example:x", ErrNQNForm},
		{"nqn.2024-13.com.example:x", ErrNQNForm},
		{"nqn.2024-00.com.example:x", ErrNQNForm},
		{"nqn.0000-01.com.example:x", ErrNQNForm},
		{"nqn.2024_12.com.example:x", ErrNQNForm},
		{"nqn.+024-12.com.example:x", ErrNQNForm},
		{"nqn.2024-12", ErrNQNForm},
		{"nqn.2024-12.", ErrNQNForm},
		{"nqn.2024-12.com..example:x", ErrNQNForm},
		{"nqn.2024-12.-com.example:x", ErrNQNForm},
		{"nqn.2024-12.com.exa_mple:x", ErrNQNForm},
		{"nqn.2024-12.com.example:", ErrNQNForm},
		{"nqn.2014-08.org.nvmexpress:uuid:f81d4fae7dec11d0a76500a0c91e6bf6", ErrNQNUUID},
		{"nqn.2014-08.org.nvmexpress:uuid:", ErrNQNUUID},
		{"nqn.2024-12.com.example:a\nb", capsule.ErrNQNText},
		{"nqn.2024-12.com.example:a\x00b", capsule.ErrNQNText},
		{"nqn.2024-12.com.example:\xff", capsule.ErrNQNText},
	}
	for _, c := range cases {
		got, err := ParseNQN(c.in)
		if !errors.Is(err, c.want) || err == nil && string(got) != c.in {
			t.Errorf("ParseNQN(%q): %q, %v, want %v", c.in, string(got), err, c.want)
		}
	}
	if n, err := AnyNQN("testnqn"); err != nil || n != "testnqn" {
		t.Errorf("AnyNQN of a name without form: %q, %v", n, err)
	}
}

func TestUUIDNQN(t *testing.T) {
	id := uuid.MustParse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
	n := UUIDNQN(id)
	if got, ok := n.UUID(); !ok || got != id {
		t.Errorf("UUID of %s: %v, %v", n, got, ok)
	}
	if _, err := ParseNQN(string(n)); err != nil {
		t.Error(err)
	}
	if _, ok := DiscoveryNQN.UUID(); ok {
		t.Error("the discovery name names a UUID")
	}
}

func TestPrintable(t *testing.T) {
	cases := []struct{ in, want string }{
		{"nqn.2014-08.org.example:ä", "nqn.2014-08.org.example:ä"},
		{"", `""`},
		{"a b", `"a b"`},
		{"line\nlevel=error", `"line\nlevel=error"`},
		{"\x1b[31m", `"\x1b[31m"`},
		{"\xff\xfe", `"\xff\xfe"`},
		{`a"b`, `"a\"b"`},
		{"\u202egnp", `"\u202egnp"`},
		{strings.Repeat("x", 300), strings.Repeat("x", 256) + "..."},
	}
	for _, c := range cases {
		if got := Printable(c.in); got != c.want {
			t.Errorf("Printable(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzNQN(f *testing.F) {
	f.Add("nqn.2014-08.org.example:name")
	f.Add("nqn.2024-12.")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseNQN(s)
		field := capsule.MakeNQNField(s)
		if err == nil && (string(n) != s || field.Check() != nil || !field.Is(s)) {
			t.Fatalf("%q is a name that cannot be sent", s)
		}
		if p := Printable(s); strings.ContainsAny(p, "\n\r\x00\x1b") || len(p) > 6*printableLimit+8 {
			t.Fatalf("Printable(%q) = %q", s, p)
		}
	})
}

func TestParseHostIdentity(t *testing.T) {
	const id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	u := capsule.HostID(uuid.MustParse(id))
	cases := []struct {
		nqn, id string
		want    HostIdentity
		ok      bool
	}{
		{"", id, HostIdentity{uuidPrefix + id, u}, true},
		{uuidPrefix + id + "\n", "", HostIdentity{uuidPrefix + id, u}, true},
		{"host-a", id, HostIdentity{"host-a", u}, true},
		{"host-a", "", HostIdentity{}, false},
		{"", "no", HostIdentity{}, false},
		{"", "00000000-0000-0000-0000-000000000000", HostIdentity{}, false},
		{uuidPrefix + "00000000-0000-0000-0000-000000000000", "", HostIdentity{}, false},
		{"bad\x01name", id, HostIdentity{}, false},
	}
	for _, c := range cases {
		got, err := ParseHostIdentity(c.nqn, c.id)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("ParseHostIdentity(%q, %q) = %v, %v", c.nqn, c.id, got, err)
		}
	}
	a, err := ParseHostIdentity("", "")
	b, err2 := ParseHostIdentity("", "")
	if err != nil || err2 != nil || a == b || a.ID == (capsule.HostID{}) {
		t.Errorf("new identities %v and %v", a, b)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"SAMSUNG  MZ é ✓":         "SAMSUNG  MZ é ✓",
		"a\x1b[2Jb":               `a\x1b[2Jb`,
		"tab\tline\n":             `tab\tline\n`,
		"user\u202egnp.exe\u2066": `user\u202egnp.exe\u2066`,
		"\x9b31m":                 `\x9b31m`, // not UTF-8
		"\u009b31m\u00a0\ufeff":   `\u009b31m\u00a0\ufeff`,
		"\U000e0001x":             `\U000e0001x`,
		"back\\slash \"quoted\"":  `back\slash "quoted"`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("Visible(%q) = %s, want %s", in, got, want)
		}
	}
}
