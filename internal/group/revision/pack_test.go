package revision

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "more seeds and changes")

// choose returns the first number, or with -long the second.
func choose(quick, whole int) int {
	if *long {
		return whole
	}
	return quick
}

// TestPieces changes a text repeatedly: the packed text is readable by any reader of gzip, and unpacking reuses the
// previous text.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var all []string
	for i := range 10000 {
		all = append(all, fmt.Sprintf(`{"nsid":%d,"file":{"path":"/disks/%d"}},`, i, rng.Uint32()))
	}
	written, read := new(packed), new(packed)
	changes := choose(18, 60)
	for i := range changes {
		at := rng.IntN(len(all) / 2)
		switch i % 6 {
		case 1:
			all = slices.Insert(slices.Clone(all), at, fmt.Sprint("new ", i))
		case 2:
			all = slices.Delete(slices.Clone(all), at, at+1+rng.IntN(len(all)/20))
		case 3:
			all[at] = strings.Repeat("long", rng.IntN(maxPiece))
		case 4:
			all[at] = fmt.Sprint("other ", i)
		case 5:
			slices.Reverse(all[at : at+1000])
		}
		text := []byte(strings.Join(all, "\n"))
		if i == changes/2 {
			text = nil
		}
		now, err := pack(text, written)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(now.packed))
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := io.ReadAll(z); err != nil || !bytes.Equal(whole, text) {
			t.Fatalf("change %d: gzip reads something else: %v", i, err)
		}
		got, err := unpack(now.packed, read)
		if err != nil || !bytes.Equal(got.text, text) || !slices.Equal(got.pieces, now.pieces) {
			t.Fatalf("change %d: %d bytes, %d pieces, want %d, %d: %v", i, len(got.text), len(got.pieces), len(text), len(now.pieces), err)
		}
		if kept := common(now, written); i%6 == 4 && i > 0 && i != changes/2+1 && kept < len(now.pieces)-3 {
			t.Errorf("change %d, of a line: %d pieces of %d are as before", i, kept, len(now.pieces))
		}
		written, read = now, got
	}
}

// common returns how many pieces of one text are also in the other.
func common(a, b *packed) (n int) {
	for _, p := range a.pieces {
		if slices.ContainsFunc(b.pieces, func(o piece) bool { return bytes.Equal(o.packed.of(b.packed), p.packed.of(a.packed)) }) {
			n++
		}
	}
	return n
}

// FuzzUnpack unpacks arbitrary bytes.
func FuzzUnpack(f *testing.F) {
	before, err := pack([]byte(strings.Repeat("some text\n", 3000)), new(packed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(before.packed)
	f.Add(before.packed[:len(before.packed)/2])
	f.Add(slices.Concat(before.packed, before.packed[5:]))
	long := slices.Clone(before.packed)
	long[memberSize-1] = 1
	f.Add(long)
	f.Fuzz(func(t *testing.T, file []byte) {
		now, err := unpack(file, before)
		if err != nil {
			return
		}
		if len(file) == 0 {
			return
		}
		z, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := io.ReadAll(z); err != nil || !bytes.Equal(whole, now.text) {
			t.Errorf("gzip reads something else: %v", err)
		}
	})
}

// BenchmarkOneLine packs a text of 10,000 namespaces, of which one has changed.
func BenchmarkOneLine(b *testing.B) {
	var all strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&all, `{"nsid":%d,"file":{"path":"/var/lib/nvmeof/disks/%d"},"ana-group":%d,"fence":"lease"},`+"\n", i%1000, i, i%128)
	}
	texts := [2][]byte{[]byte(all.String()), []byte(strings.Replace(all.String(), "disks/5000", "other", 1))}
	var both [2]*packed
	for i, text := range texts {
		var err error
		if both[i], err = pack(text, new(packed)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := pack(texts[i%2], both[1-i%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := unpack(both[i%2].packed, both[1-i%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Logf("%d bytes of %d, in %d pieces", len(both[0].packed), len(texts[0]), len(both[0].pieces))
}
