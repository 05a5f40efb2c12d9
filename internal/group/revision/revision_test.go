package revision

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// TestWritersAndReaders runs writers on a store that loses requests and replies, and readers: each revision is a whole
// text of one writer, and no acknowledged revision is lost.
func TestWritersAndReaders(t *testing.T) {
	for seed := range uint64(choose(2, 5)) {
		synctest.Test(t, func(t *testing.T) {
			shared := simulated.Share(simulated.New(rand.New(rand.NewPCG(seed, 1))))
			var mu sync.Mutex
			written := map[int64]string{}
			var all sync.WaitGroup
			for w := range 3 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(w)))
					var c Cache
					s := shared.Open(time.Second)
					if w > 0 {
						shared.Do(func(st *simulated.Store, _ time.Time) {
							st.SetLink(s.Client, simulated.Link{LoseRequest: 0.1, LoseReply: 0.1, Late: 0.5, Delay: 0.05, Slow: 50 * time.Millisecond})
						})
					}
					for i := range 20 {
						base, _, err := c.Read(t.Context(), s)
						if err != nil {
							continue
						}
						text := strings.Repeat(fmt.Sprintf("%d.%d ", w, i), rng.IntN(2000)) + lines(rng)
						n, err := c.Write(t.Context(), s, base, []byte(text))
						if err == nil {
							mu.Lock()
							if before, twice := written[n]; twice {
								t.Errorf("seed %d: revision %d is %.9q and %.9q", seed, n, before, text)
							}
							written[n] = text
							mu.Unlock()
						}
						time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
					}
				})
			}
			all.Go(func() {
				s := shared.Open(time.Second)
				var c Cache
				last := int64(0)
				for range 200 {
					n, text, err := c.Read(t.Context(), s)
					mu.Lock()
					want, known := written[n]
					mu.Unlock()
					if err != nil || n < last || known && want != string(text) {
						t.Errorf("seed %d: revision %d after %d: %v", seed, n, last, err)
					}
					last = n
					time.Sleep(20 * time.Millisecond)
				}
			})
			all.Wait()
			if len(written) < 10 {
				t.Errorf("seed %d: %d revisions", seed, len(written))
			}
			afterwards(t, shared.Open(time.Second))
		})
	}
}

// lines returns lines that resemble those of other calls.
func lines(rng *rand.Rand) string {
	var b strings.Builder
	for i := range 1000 {
		if rng.IntN(1000) > 0 {
			fmt.Fprintln(&b, "line", i, "is one of many")
		}
	}
	return b.String()
}

// afterwards checks that a writer removes what others have left behind.
func afterwards(t *testing.T, s state.Store) {
	t.Helper()
	base, _, err := new(Cache).Read(t.Context(), s)
	if err == nil {
		_, err = new(Cache).Write(t.Context(), s, base, []byte("last"))
	}
	if left, getErr := s.Get(t.Context(), dataPrefix); err != nil || getErr != nil || len(left.Entries) > 2 {
		t.Errorf("%d parts are left, %v, %v", len(left.Entries), err, getErr)
	}
}

// TestParts writes a text of several parts, and one that is too large.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		random := rand.NewChaCha8([32]byte{})
		text := make([]byte, 5*partSize/2)
		_, _ = random.Read(text)
		if n, err := new(Cache).Write(t.Context(), s, 0, text); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, got, err := new(Cache).Read(t.Context(), s); n != 1 || err != nil || !bytes.Equal(got, text) {
			t.Error(n, err)
		}
		if _, err := new(Cache).Write(t.Context(), s, 0, nil); !errors.Is(err, ErrConflict) {
			t.Error(err)
		}
		if n, err := Number(t.Context(), s); n != 1 || err != nil {
			t.Error(n, err)
		}
		if _, err := new(Cache).Write(t.Context(), s, 1, make([]byte, MaxText+1)); !errors.Is(err, state.ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestDamaged reads texts that are incomplete or of a later version.
func TestDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		if _, err := new(Cache).Write(ctx, s, 0, []byte("text")); err != nil {
			t.Fatal(err)
		}
		whole, err := s.Get(ctx, dataPrefix)
		if err != nil || len(whole.Entries) != 1 {
			t.Fatal(whole, err)
		}
		part := whole.Entries[0].Key
		for _, test := range []struct {
			op   state.Op
			want string
		}{
			{state.Op{Key: part, Value: []byte("x")}, "revision 1"},
			{state.Op{Key: part, Delete: true}, "is incomplete"},
			{state.Op{Key: currentKey, Value: []byte(`{"version":2}`)}, "upgrade this gateway"},
			{state.Op{Key: currentKey, Value: []byte(`{`)}, currentKey},
			{state.Op{Key: currentKey, Value: []byte(`null`)}, currentKey + " is damaged"}, // and not a group without a configuration
			{state.Op{Key: currentKey, Value: []byte(`{}`)}, currentKey + " is damaged"},
			{state.Op{Key: currentKey, Value: []byte(`{"version":1}`)}, currentKey + " is damaged"},
		} {
			if _, err := s.Txn(ctx, state.Txn{Then: []state.Op{test.op}}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := new(Cache).Read(ctx, s); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		}
	})
}

// TestExpands: a text that is small in the store and large when decompressed is rejected before it takes much memory.
// It is not decompressed again until the text changes.
func TestExpands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		var file bytes.Buffer
		z := gzip.NewWriter(&file)
		for range 2 * MaxText >> 20 {
			_, _ = z.Write(bytes.Repeat([]byte("0,"), 1<<19))
		}
		_ = z.Close()
		p := pointer{Version: version, Revision: 1, Hash: hashOf(file.Bytes())}
		txn, err := putParts(t.Context(), s, &p, file.Bytes())
		value, _ := json.Marshal(p)
		txn.Then = []state.Op{{Key: currentKey, Value: value}}
		if _, err2 := s.Txn(t.Context(), txn); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		asked := 0
		counted := heldUp{Store: s, get: func(prefix string) {
			if prefix != currentKey {
				asked++
			}
		}}
		var c Cache
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 {
			if _, _, err := c.Read(t.Context(), counted); err == nil || !strings.Contains(err.Error(), "revision 1 of the configuration: it has more than 16777216 bytes") {
				t.Error(err)
			}
		}
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 150 {
			t.Errorf("%d bytes took %d MiB", file.Len(), took)
		}
		if asked != 1 {
			t.Errorf("it was read %d times", asked)
		}
		if n, err := c.Write(t.Context(), counted, 1, []byte("small")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if n, text, err := c.Read(t.Context(), counted); n != 2 || string(text) != "small" || err != nil {
			t.Errorf("revision %d, %q: %v", n, text, err)
		}
	})
}

// A heldUp store calls a function before each Get of a prefix, and each Txn.
type heldUp struct {
	state.Store
	get func(prefix string)
	txn func(state.Txn) error
}

func (s heldUp) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	if s.get != nil {
		s.get(prefix)
	}
	return s.Store.Get(ctx, prefix)
}

func (s heldUp) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if s.txn != nil {
		if err := s.txn(t); err != nil {
			return state.Result{}, err
		}
	}
	return s.Store.Txn(ctx, t)
}

// TestHeldUpWriter: a writer that is delayed before it removes old texts does not remove texts that others have written
// meanwhile.
func TestHeldUpWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		others := func(prefix string) {
			if prefix != dataPrefix {
				return
			}
			for i, text := range []string{"second", "third"} {
				if _, err := new(Cache).Write(t.Context(), s, int64(i+1), []byte(text)); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := new(Cache).Write(t.Context(), heldUp{Store: s, get: others}, 0, []byte("first")); err != nil {
			t.Error(err)
		}
		if n, text, err := new(Cache).Read(t.Context(), s); n != 3 || string(text) != "third" || err != nil {
			t.Errorf("revision %d, %q: %v", n, text, err)
		}
	})
}

// TestSameTextOtherCompressor: a writer that writes the present text again and dies meanwhile leaves it intact, however
// it compresses.
func TestSameTextOtherCompressor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		text := []byte(strings.Repeat("a text ", 100))
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.HuffmanOnly)
		_, _ = z.Write(text)
		_ = z.Close()
		other := pointer{Version: version, Revision: 1, Hash: hashOf(packed.Bytes())}
		txn, err := putParts(t.Context(), s, &other, packed.Bytes())
		value, _ := json.Marshal(other)
		txn.Then = []state.Op{{Key: currentKey, Value: value}}
		if _, err2 := s.Txn(t.Context(), txn); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		dies := heldUp{Store: s, txn: func(t state.Txn) error {
			if t.Then[0].Key == currentKey {
				return state.ErrUnavailable
			}
			return nil
		}}
		if _, err := new(Cache).Write(t.Context(), dies, 1, text); err == nil {
			t.Error("it did not die")
		}
		left, err := s.Get(t.Context(), dataPrefix)
		if err != nil || len(left.Entries) != 2 {
			t.Errorf("%d parts, %v", len(left.Entries), err)
		}
		if n, got, err := new(Cache).Read(t.Context(), s); n != 1 || !bytes.Equal(got, text) || err != nil {
			t.Errorf("revision %d: %v", n, err)
		}
	})
}

// TestNote: the noted revision of a gateway never decreases, even if another gateway has its name.
func TestNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
		lossy := shared.Open(time.Second)
		shared.Do(func(st *simulated.Store, _ time.Time) {
			st.SetLink(lossy.Client, simulated.Link{LoseRequest: 0.1, LoseReply: 0.3, Late: 0.5, Delay: 0.05, Slow: 50 * time.Millisecond})
		})
		s := shared.Open(time.Second)
		var all sync.WaitGroup
		for n := range int64(20) {
			all.Go(func() {
				for Note(t.Context(), lossy, "gw1", n, nil) != nil {
				}
			})
			if err := Note(t.Context(), s, "gw10", n, nil); err != nil {
				t.Error(err)
			}
		}
		all.Wait()
		time.Sleep(time.Minute) // for late requests
		if got, err := Followers(t.Context(), s); err != nil || len(got) != 2 || got["gw1"].Revision != 19 || got["gw10"].Revision != 19 {
			t.Error(got, err)
		}
		for _, but := range [][]string{{"a/1"}, nil, {"a/1", "a/2"}} {
			if err := errors.Join(Note(t.Context(), s, "gw1", 20, but), Note(t.Context(), s, "gw1", 19, nil)); err != nil {
				t.Error(err)
			}
			if got, err := Followers(t.Context(), s); err != nil || got["gw1"].Revision != 20 || !slices.Equal(got["gw1"].But, but) {
				t.Error(got, err)
			}
		}
		if _, err := s.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: followPrefix + "gw2", Value: []byte("{")}}}); err != nil {
			t.Fatal(err)
		}
		if got, err := Followers(t.Context(), s); err != nil || got["gw2"].Err == nil || got["gw2"].Revision != 0 || got["gw1"].Err != nil || got["gw1"].Revision != 20 {
			t.Errorf("what cannot be read is passed over, or keeps what others have said from being read: %v, %v", got, err)
		}
		if err := Note(t.Context(), s, "gw2", 1, nil); err != nil {
			t.Error(err)
		}
	})
}
