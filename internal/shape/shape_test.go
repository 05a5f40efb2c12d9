package shape

import (
	"net/netip"
	"testing"
	"time"
)

type (
	inner  struct{ A, B int }
	record struct {
		N     int `json:"n"`
		Inner []inner
		By    map[string]*record
		At    time.Time
		Raw   [4]byte
	}
)

// TestOf: each difference changes the sum, and equal types have the same sum.
func TestOf(t *testing.T) {
	type otherInner struct {
		B, A int
	}
	sums := map[Sum]any{}
	for _, v := range []any{
		record{}, inner{}, otherInner{}, []inner{}, [3]inner{}, [4]inner{}, map[string]inner{}, map[int]inner{}, new(int), int64(0), time.Time{}, netip.Addr{},
		struct{ A, B int }{}, struct {
			A int `json:"a"`
			B int
		}{}, struct{ A, B uint }{}, struct{ A int }{}, struct{ In inner }{}, struct{ In otherInner }{},
	} {
		s := Of(v)
		if other, there := sums[s]; there || s != Of(v) {
			t.Errorf("%T and %T have the sum %v", v, other, s)
		}
		sums[s] = v
	}
}
