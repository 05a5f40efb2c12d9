package storage

import (
	"testing"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// set returns a time as it is after the machine's clock was set forward by d, which is in seconds. The reading of
// the monotonic clock in it stays the same.
func set(t time.Time, d time.Duration) time.Time {
	const second = 1 << 30 // in the first word, which has 1 bit, 33 bits of seconds, and 30 of nanoseconds
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(d/time.Second)) * second
	return t
}

// TestClockIsSet is row 116: the detection of stores that do not answer does not depend on the machine's clock,
// which may be set by a year in either direction meanwhile.
func TestClockIsSet(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Now()
	if later := set(now.Add(time.Second), year); later.Sub(now) != time.Second || later.Unix()-now.Unix() < int64(year/time.Second) {
		t.Fatalf("a time of package time is another one than it was: %v is %v after %v", later, later.Sub(now), now)
	}
	var all Volumes
	all.Init(1, peerlog.New(zap.NewNop()))
	asked, answer := make(chan struct{}), make(chan struct{})
	s := &slowStore{asked: func() {}}
	n := NewNamespace(Identity{ID: 1}, 1, false)
	if err := all.Acquire(s, "slow", nil, reservation.Owner{}, n); err != nil {
		t.Fatal(err)
	}
	s.asked = func() {
		s.asked = func() {}
		close(asked)
		<-answer
	}
	began, ended := time.Now(), make(chan struct{})
	go func() { // ends when the store answers
		n.Volume.LookAt(began)
		close(ended)
	}()
	<-asked
	for _, clock := range []time.Duration{-year, 0, year} {
		if _, is := n.Volume.Silent(set(began.Add(silence-time.Second), clock)); is {
			t.Errorf("clock set by %v: silent too early", clock)
		}
		at := set(began.Add(silence), clock)
		since, is := n.Volume.Silent(at)
		if !is || at.Sub(since) != silence || since.Unix() != at.Unix()-int64(silence/time.Second) {
			t.Errorf("clock set by %v: %v, since %v", clock, is, since)
		}
	}
	close(answer)
	<-ended
	if _, is := n.Volume.Silent(began.Add(time.Hour)); is {
		t.Error("silent although it has answered")
	}
}
