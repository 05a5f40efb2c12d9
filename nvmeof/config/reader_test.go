package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// crowd is a document with some namespaces in each of three subsystems.
func crowd(t testing.TB, namespaces int) *Document {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nsubsystems:\n")
	for s := range 3 {
		fmt.Fprintf(&b, "  - nqn: nqn.2026-11.org.example:s%d\n    hosts:\n      - nqn: nqn.2026-11.org.example:h\n", s)
		for n := range namespaces {
			if n == 0 {
				b.WriteString("    namespaces:\n")
			}
			store := [...]string{"file: {path: /a/%[1]d-%[2]d, thin: true}", "block: {path: /b/%[1]d-%[2]d}", "memory: {size: 1MiB}", `rbd: {image: "p/%[1]d-%[2]d"}`}[n%4]
			if strings.Contains(store, "%") {
				store = fmt.Sprintf(store, s, n)
			}
			fmt.Fprintf(&b, "      - {nsid: %d, ana-group: %d, %s}\n", n+1, 1+n%128, store)
		}
	}
	doc, _, err := Parse("crowd", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestReader changes a document again and again: a Reader has of each text what Parse has, and
// shares nothing with what it has returned before.
func TestReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	doc := crowd(t, 20)
	var r Reader
	for i := range 300 {
		s := doc.Subsystems[rng.IntN(len(doc.Subsystems))]
		at := rng.IntN(len(s.Namespaces) + 1)
		switch rng.IntN(5) {
		case 0:
			if at < len(s.Namespaces) {
				s.Namespaces = append(s.Namespaces[:at], s.Namespaces[at+1:]...)
			}
		case 1:
			s.Namespaces = append(s.Namespaces, &Namespace{NSID: 100 + i, File: &File{Path: Path(fmt.Sprintf("/c/%d\"[{", i))}})
		case 2:
			if at < len(s.Namespaces) {
				s.Namespaces[at].ReadOnly = !s.Namespaces[at].ReadOnly
			}
		case 3:
			rng.Shuffle(len(s.Namespaces), func(i, j int) { s.Namespaces[i], s.Namespaces[j] = s.Namespaces[j], s.Namespaces[i] })
		case 4:
			s.Model = fmt.Sprintf("%d, \"namespaces\": [{}]", i)
		}
		text := doc.JSON()
		want, _, err := Parse("x", text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Read("x", text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("change %d, %v:\n%s\nwant\n%s", i, err, got.JSON(), text)
		}
		for _, n := range got.Subsystems[0].Namespaces { // as whoever has it may
			n.ANAGroup = 99
			if n.File != nil {
				n.File.Path = "/other"
			}
		}
	}
}

// TestReaderDecodesLittle: what it parses of a text is what is new in it.
func TestReaderDecodesLittle(t *testing.T) {
	doc := crowd(t, 1000)
	var r Reader
	if _, err := r.Read("x", doc.JSON()); err != nil {
		t.Fatal(err)
	}
	doc.Subsystems[1].Namespaces[7].ReadOnly = true
	s := skimmer{text: doc.JSON(), known: r.known}
	if !s.document() || s.count != 3000 || len(s.rest()) > 1500 {
		t.Errorf("%d namespaces, %d bytes remain to be parsed of %d:\n%.2000s", s.count, len(s.rest()), len(s.text), s.rest())
	}
}

// TestNamespaceClone: a copy of a namespace shares nothing with it.
func TestNamespaceClone(t *testing.T) {
	n := &Namespace{File: new(File), Block: new(Block), Memory: new(Memory), RBD: new(RBD)}
	a, b := reflect.ValueOf(n).Elem(), reflect.ValueOf(n.clone()).Elem()
	for i := range a.NumField() {
		switch f := a.Field(i); f.Kind() {
		case reflect.Pointer:
			if f.IsNil() || f.Pointer() == b.Field(i).Pointer() {
				t.Errorf("%s is shared, or is new here", a.Type().Field(i).Name)
			}
			for j := range f.Elem().NumField() {
				if k := f.Elem().Field(j).Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
					t.Errorf("%s: field %d is a %v", a.Type().Field(i).Name, j, k)
				}
			}
		case reflect.Slice, reflect.Map:
			t.Errorf("%s is a %v", a.Type().Field(i).Name, f.Kind())
		}
	}
}

// FuzzReader reads one text after another: the second as if there had been no first.
func FuzzReader(f *testing.F) {
	doc := crowd(f, 3)
	one := string(doc.JSON())
	doc.Subsystems[0].Namespaces[1].ReadOnly = true
	f.Add(one, string(doc.JSON()))
	f.Add(one, strings.ReplaceAll(one, `"nsid": 1,`, `"nsid": 1,,`))
	f.Add(one, strings.ReplaceAll(one, `"namespaces": [`, `"namespaces": [], "namespaces": [`))
	f.Add(one, strings.Replace(one, "},", "} ]", 3))
	f.Add(one, one+"{")
	f.Add(`{"version":1,"subsystems":[{"nqn":"a","namespaces":[{"nsid":1,"memory":{"size":1024}}]}]}`, `{"version":1,"subsystems":[null]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var r Reader
		_, _ = r.Read("x", []byte(first))
		want := new(Document)
		_, wantErr := parseInto("x", []byte(second), want, false)
		got, err := r.Read("x", []byte(second))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nwant\n%s", got.JSON(), want.JSON())
		}
	})
}

// BenchmarkFollow is what a gateway does with a document of 12,000 namespaces of which one has changed.
func BenchmarkFollow(b *testing.B) {
	doc := crowd(b, 4000)
	texts := [2][]byte{doc.JSON()}
	other := doc.Clone()
	other.Subsystems[1].Namespaces[5].ReadOnly = true
	texts[1] = other.JSON()
	var r Reader
	b.Run("Read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := r.Read("x", texts[i%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Check", func(b *testing.B) {
		for b.Loop() {
			if _, err := other.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Diff", func(b *testing.B) {
		for b.Loop() {
			if n := len(Diff(doc, other)); n != 1 {
				b.Fatal(n)
			}
		}
	})
	b.Run("Clone", func(b *testing.B) {
		for b.Loop() {
			doc.Clone()
		}
	})
}
