package recent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reading[int]
		reads, failed := 0, errors.New("failed")
		read := func() (int, error) {
			if reads++; reads == 2 {
				return 0, failed
			}
			return reads, nil
		}
		want := func(n int, err error) {
			t.Helper()
			if got, e := r.Get(read); got != n || e != err {
				t.Errorf("%d, %v, want %d, %v", got, e, n, err)
			}
		}
		want(1, nil)
		time.Sleep(Interval - 1)
		want(1, nil)
		time.Sleep(time.Nanosecond)
		want(0, failed)
		want(0, failed)
		time.Sleep(Interval)
		want(3, nil)
	})
}
