package capsule_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestNQNFieldCheck(t *testing.T) {
	full := func(s string) (f capsule.NQNField) { copy(f[:], s); return f }
	for _, c := range []struct {
		name  string
		field capsule.NQNField
		want  error
	}{
		{"good", full("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"), nil},
		{"223 bytes", full("nqn." + strings.Repeat("x", 219)), nil},
		{"UTF-8", full("nqn.2026-11.io.example:späth"), nil},
		{"empty", full(""), capsule.ErrNQNEmpty},
		{"224 bytes", full("nqn." + strings.Repeat("x", 220)), capsule.ErrNQNLong},
		{"no NUL", full(strings.Repeat("x", 256)), capsule.ErrNQNUnterminated},
		{"newline", full("nqn.a\nb"), capsule.ErrNQNText},
		{"escape", full("nqn.\x1b[2J"), capsule.ErrNQNText},
		{"not UTF-8", full("nqn.\xff\xfe"), capsule.ErrNQNText},
	} {
		if err := c.field.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	f := capsule.MakeNQNField("nqn.x")
	if !f.Is("nqn.x") || f.Is("nqn.") || f.Is("nqn.xy") || f.String() != "nqn.x" {
		t.Errorf("field reads %q", f.String())
	}
}

func TestText(t *testing.T) {
	b := dirty(8)
	capsule.PutText(b, "4420")
	if string(b) != "4420    " || capsule.Text(b) != "4420" {
		t.Errorf("padded %q, trimmed %q", b, capsule.Text(b))
	}
	capsule.PutText(b, "123456789")
	if string(b) != "12345678" {
		t.Errorf("cut to %q", b)
	}
	if got := capsule.Text([]byte("a b\x00junk")); got != "a b" {
		t.Errorf("text up to NUL is %q", got)
	}
}

func TestNamespaceList(t *testing.T) {
	b := dirty(capsule.NamespaceListSize)
	capsule.PutNamespaceList(b, []capsule.NSID{1, 5, 9})
	for i, want := range []capsule.NSID{1, 5, 9, 0} {
		if got := capsule.NSIDAt(b, i); got != want {
			t.Errorf("entry %d is %d, want %d", i, got, want)
		}
	}
	if capsule.NSIDAt(b[:3], 0) != 0 || capsule.NSIDAt(b, 1024) != 0 || capsule.NSIDAt(b, -1) != 0 {
		t.Error("an entry outside the bytes is not 0")
	}
	long := make([]capsule.NSID, 1025)
	for i := range long {
		long[i] = capsule.NSID(i + 1)
	}
	capsule.PutNamespaceList(b, long)
	if capsule.NSIDAt(b, 1023) != 1024 {
		t.Error("a full list loses its last entry")
	}
}

func TestDescriptors(t *testing.T) {
	b := make([]byte, 64)
	uuid := bytes.Repeat([]byte{7}, 16)
	rest := capsule.PutDescriptor(b, capsule.DescriptorUUID, uuid)
	capsule.PutDescriptor(rest, capsule.DescriptorCSI, []byte{byte(capsule.CSINVM)})

	typ, id, next, err := capsule.NextDescriptor(b)
	if typ != capsule.DescriptorUUID || !bytes.Equal(id, uuid) || err != nil {
		t.Fatalf("first descriptor: %d % x %v", typ, id, err)
	}
	typ, id, next, err = capsule.NextDescriptor(next)
	if typ != capsule.DescriptorCSI || len(id) != typ.Length() || err != nil {
		t.Fatalf("second descriptor: %d % x %v", typ, id, err)
	}
	if typ, _, next, err = capsule.NextDescriptor(next); typ != 0 || next != nil || err != nil {
		t.Fatalf("end of list: %d %v", typ, err)
	}
	for n := 1; n < 20; n++ {
		if _, _, _, err := capsule.NextDescriptor(b[:n]); !errors.Is(err, capsule.ErrShort) {
			t.Errorf("descriptor cut to %d bytes: %v", n, err)
		}
	}
	if capsule.DescriptorType(9).Length() != 0 || capsule.DescriptorNGUID.Length() != 16 {
		t.Error("descriptor lengths")
	}
}

func FuzzNextDescriptor(f *testing.F) {
	f.Add([]byte{3, 16, 0, 0, 1, 2})
	f.Add([]byte{4, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			_, id, rest, err := capsule.NextDescriptor(b)
			if err != nil || rest == nil {
				return
			}
			if len(rest)+len(id)+4 != len(b) {
				t.Fatalf("%d bytes gave %d and left %d", len(b), len(id), len(rest))
			}
			b = rest
		}
	})
}

func TestEffects(t *testing.T) {
	b := make([]byte, capsule.EffectsLogSize)
	capsule.PutAdminEffects(b, capsule.AdminIdentify, capsule.EffectSupported)
	capsule.PutIOEffects(b, capsule.IOWrite, capsule.EffectSupported|capsule.EffectBlockContentChange)
	if b[24] != 1 || b[1028] != 3 {
		t.Errorf("effects stand at the wrong place")
	}
	if capsule.AdminEffects(b, capsule.AdminIdentify) != 1 || capsule.IOEffects(b, capsule.IOWrite) != 3 || capsule.IOEffects(b[:100], capsule.IOWrite) != 0 {
		t.Error("effects read back differ")
	}
}
