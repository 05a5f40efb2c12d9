package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// crowd returns a document with so many namespaces in each of three subsystems.
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

// changed returns a next document, which shares namespaces as [Document.Successor] requires.
func changed(rng *rand.Rand, doc *Document, i int) *Document {
	doc = doc.Successor()
	s := doc.Subsystems[rng.IntN(len(doc.Subsystems))]
	at := rng.IntN(len(s.Namespaces) + 1)
	switch rng.IntN(6) {
	case 0:
		if at < len(s.Namespaces) {
			s.Namespaces = append(s.Namespaces[:at], s.Namespaces[at+1:]...)
		}
	case 1:
		s.Namespaces = append(s.Namespaces, &Namespace{NSID: 1000 + i, File: &File{Path: Path(fmt.Sprintf("/c/%d\"[{<", i))}})
	case 2:
		if at < len(s.Namespaces) {
			s.Namespaces[at] = s.Namespaces[at].Clone()
			s.Namespaces[at].ReadOnly = !s.Namespaces[at].ReadOnly
		}
	case 3:
		rng.Shuffle(len(s.Namespaces), func(i, j int) { s.Namespaces[i], s.Namespaces[j] = s.Namespaces[j], s.Namespaces[i] })
	case 4:
		s.Model = fmt.Sprintf("%d, \"namespaces\": [{}]", i)
	case 5:
		if i%10 == 0 {
			s.Namespaces = nil
		}
	}
	return doc
}

// TestReader changes a document repeatedly. For each text, a Reader returns what Parse returns, and it writes what
// Parse reads. Documents that it returned earlier do not change.
func TestReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	doc := crowd(t, 40)
	var r, both Reader
	var texts []string
	var read []*Document
	changes := 50
	if *long {
		changes = 150
	}
	for i := range changes {
		doc = changed(rng, doc, i)
		text := doc.JSON()
		if i%3 == 0 {
			text = r.Write(doc)
		}
		want, _, err := Parse("x", text)
		if err != nil || !reflect.DeepEqual(want, parsed(t, string(doc.JSON()))) {
			t.Fatalf("change %d, %v:\n%s\nwant\n%s", i, err, text, doc.JSON())
		}
		for _, x := range []*Reader{&r, &both} {
			got, err := x.Read("x", text)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("change %d, %v:\n%s\nwant\n%s", i, err, got.JSON(), text)
			}
			once := map[*Namespace]bool{}
			for _, s := range got.Subsystems {
				for _, n := range s.Namespaces {
					if once[n] {
						t.Fatalf("change %d: a namespace is there twice: %+v", i, n)
					}
					once[n] = true
				}
			}
			if x == &both { // this one reads and writes
				if written := both.Write(got); !reflect.DeepEqual(parsed(t, string(written)), want) {
					t.Fatalf("change %d:\n%s\nwant\n%s", i, written, text)
				}
			}
			texts, read = append(texts, string(got.JSON())), append(read, got)
		}
	}
	for i, text := range texts {
		if string(read[i].JSON()) != text {
			t.Fatalf("document %d is another afterwards", i)
		}
	}
}

// TestReaderDecodesLittle: a Reader parses only what is new in a text.
func TestReaderDecodesLittle(t *testing.T) {
	before := crowd(t, 1000)
	for name, change := range map[string]func(s *Subsystem){
		"changed": func(s *Subsystem) { s.Namespaces[7].ReadOnly = true },
		"added": func(s *Subsystem) {
			s.Namespaces = append(s.Namespaces, &Namespace{NSID: 1001, Block: &Block{Path: "/c"}})
		},
		"removed": func(s *Subsystem) { s.Namespaces = append(s.Namespaces[:7], s.Namespaces[8:]...) },
		"halved":  func(s *Subsystem) { s.Namespaces = s.Namespaces[500:] },
	} {
		var r Reader
		if _, err := r.Read("x", before.JSON()); err != nil {
			t.Fatal(err)
		}
		doc := before.Clone()
		change(doc.Subsystems[1])
		s := skimmer{text: doc.JSON(), before: seeker[string]{text: r.text, entries: r.entries}}
		most := 1500
		if name == "halved" {
			most += seekMisses * 200
		}
		if !s.document() || len(s.entries) < 2500 || len(s.rest()) > most {
			t.Errorf("%s: %d namespaces, %d bytes remain to be parsed of %d:\n%.2000s", name, len(s.entries), len(s.rest()), len(s.text), s.rest())
		}
	}
}

// TestNamespaceClone: a copy of a namespace shares nothing with it.
func TestNamespaceClone(t *testing.T) {
	n := &Namespace{File: new(File), Block: new(Block), Memory: new(Memory), RBD: new(RBD)}
	a, b := reflect.ValueOf(n).Elem(), reflect.ValueOf(n.Clone()).Elem()
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

// FuzzReader reads two texts in turn: the second one as if there had been no first.
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
		_, wantErr := parseInto("x", []byte(second), want)
		got, err := r.Read("x", []byte(second))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nwant\n%s", got.JSON(), want.JSON())
		}
	})
}

// BenchmarkFollow measures what a gateway does with a document of 12,000 namespaces of which one has changed.
func BenchmarkFollow(b *testing.B) {
	doc := crowd(b, 4000)
	texts := [2][]byte{doc.JSON()}
	other := doc.Successor()
	s := other.Subsystems[1]
	s.Namespaces[5] = s.Namespaces[5].Clone()
	s.Namespaces[5].ReadOnly = true
	texts[1] = other.JSON()
	var r Reader
	b.Run("Read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := r.Read("x", texts[i%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Write", func(b *testing.B) {
		var r Reader
		for i := 0; b.Loop(); i++ {
			r.Write([]*Document{doc, other}[i%2])
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
	b.Run("Successor", func(b *testing.B) {
		for b.Loop() {
			doc.Successor()
		}
	})
}
