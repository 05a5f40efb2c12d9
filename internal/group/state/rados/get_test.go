package rados

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestGetWhileChanging: a read of many pages ends although other gateways change the counter between any two operations
// of the cluster, and what it finds is of one revision.
func TestGetWhileChanging(t *testing.T) {
	t.Parallel()
	const keys = 1000
	for name, tt := range map[string]struct {
		most  int                  // of the cluster for a page
		grows func(reads int) int  // number of keys that are added before a read
		want  func(reads int) bool // that were made
		err   error
	}{
		"heartbeats":        {want: func(n int) bool { return n == 6 }},
		"a cluster's limit": {most: 100, want: func(n int) bool { return n == 12 }},
		"a few new keys":    {most: 100, grows: func(int) int { return 2 }, want: func(n int) bool { return n == 12 }},
		"many new keys, once": {most: 100, grows: func(n int) int {
			if n < 14 {
				return 30
			}
			return 0
		}, want: func(n int) bool { return n > 15 && n < 35 }},
		"many new keys": {most: 100, grows: func(int) int { return 30 }, want: func(n int) bool { return n > 40 && n < 90 }, err: state.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFake()
			o.most = tt.most
			s := fakeStore(t, o)
			for i := range keys {
				o.keys[valueKey(fmt.Sprintf("k%05d", i))] = append(bytesOf(1), "value"...)
			}
			first, last := "k00000", fmt.Sprintf("k%05d", keys-1)
			reads, added := 0, 0
			o.read1 = func() {
				n := revisionOf(o.keys[counter])
				if err := o.write(stepsOf(&state.Txn{Then: []state.Op{put("beat/a", "").Then[0], put(first, fmt.Sprint(n)).Then[0], put(last, fmt.Sprint(n)).Then[0]}}, n)); err != nil {
					t.Error(err)
				}
				for i := 0; tt.grows != nil && i < tt.grows(reads); i++ {
					o.keys[valueKey(fmt.Sprintf("k00500/%05d", added))] = append(bytesOf(n), "new"...)
					added++
				}
				reads++
			}
			got, err := s.Get(t.Context(), "k")
			if !errors.Is(err, tt.err) || !tt.want(reads) {
				t.Errorf("%d reads, %v", reads, err)
			}
			if err != nil {
				return
			}
			n := len(got.Entries)
			if n != keys+added || got.Revision != revisionOf(o.keys[counter]) || string(got.Entries[0].Value) != string(got.Entries[n-1].Value) {
				t.Errorf("%d entries at revision %d, want %d at %d", n, got.Revision, keys+added, revisionOf(o.keys[counter]))
			}
			for i, e := range got.Entries[1:] {
				if e.Key <= got.Entries[i].Key {
					t.Fatalf("%s follows %s", e.Key, got.Entries[i].Key)
				}
			}
		})
	}
}
