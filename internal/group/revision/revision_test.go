package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// TestWritersAndReaders has writers with a store that loses requests and replies, and readers: each
// revision is one writer's, whole, and none is lost that was acknowledged.
func TestWritersAndReaders(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			shared := simulated.Share(simulated.New(rand.New(rand.NewPCG(seed, 1))))
			var mu sync.Mutex
			written := map[int64]string{}
			var all sync.WaitGroup
			for w := range 3 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(w)))
					s := shared.Open(time.Second)
					if w > 0 {
						shared.Do(func(st *simulated.Store, _ time.Time) {
							st.SetLink(s.Client, simulated.Link{LoseRequest: 0.1, LoseReply: 0.1, Late: 0.5, Delay: 0.05, Slow: 50 * time.Millisecond})
						})
					}
					for i := range 20 {
						base, _, err := Read(t.Context(), s)
						if err != nil {
							continue
						}
						text := strings.Repeat(fmt.Sprintf("%d.%d ", w, i), rng.IntN(2000))
						n, err := Write(t.Context(), s, base, []byte(text))
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
				last := int64(0)
				for range 200 {
					n, text, err := Read(t.Context(), s)
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

// afterwards checks that a writer removes what others have left.
func afterwards(t *testing.T, s state.Store) {
	t.Helper()
	base, _, err := Read(t.Context(), s)
	if err == nil {
		_, err = Write(t.Context(), s, base, []byte("last"))
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
		if n, err := Write(t.Context(), s, 0, text); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, got, err := Read(t.Context(), s); n != 1 || err != nil || !bytes.Equal(got, text) {
			t.Error(n, err)
		}
		if _, err := Write(t.Context(), s, 0, nil); !errors.Is(err, ErrConflict) {
			t.Error(err)
		}
		if n, err := Number(t.Context(), s); n != 1 || err != nil {
			t.Error(n, err)
		}
		if testing.Short() {
			t.Skip("what is too large takes long to compress under the race detector")
		}
		huge := make([]byte, (maxParts+1)*partSize)
		_, _ = random.Read(huge)
		if _, err := Write(t.Context(), s, 1, huge); !errors.Is(err, state.ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestDamaged reads what is not whole, or of a later version.
func TestDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Minute)
		if _, err := Write(ctx, s, 0, []byte("text")); err != nil {
			t.Fatal(err)
		}
		part := dataPrefix + hashOf([]byte("text")) + "/000"
		for _, test := range []struct {
			op   state.Op
			want string
		}{
			{state.Op{Key: part, Value: []byte("x")}, "revision 1"},
			{state.Op{Key: part, Delete: true}, "is not whole"},
			{state.Op{Key: currentKey, Value: []byte(`{"version":2}`)}, "upgrade this gateway"},
			{state.Op{Key: currentKey, Value: []byte(`{`)}, currentKey},
		} {
			if _, err := s.Txn(ctx, state.Txn{Then: []state.Op{test.op}}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Read(ctx, s); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		}
	})
}
