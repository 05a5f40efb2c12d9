package mailbox

import (
	"slices"
	"sync"
	"testing"
)

// TestOrder: functions run in order of arrival, and those added by a function run the next time.
func TestOrder(t *testing.T) {
	var m Mailbox
	var ran []int
	if m.Full() || m.Run() {
		t.Fatal("an empty mailbox has something to run")
	}
	m.Put(func() {
		ran = append(ran, 1)
		m.Put(func() { ran = append(ran, 3) })
	})
	m.Put(func() { ran = append(ran, 2) })
	if !m.Full() || !m.Run() || !slices.Equal(ran, []int{1, 2}) {
		t.Fatalf("ran %v, want 1 and 2", ran)
	}
	if !m.Full() || !m.Run() || !slices.Equal(ran, []int{1, 2, 3}) || m.Full() {
		t.Fatalf("ran %v, want 1 to 3 and nothing left", ran)
	}
}

// TestGoroutines: no function is lost when many goroutines add them.
func TestGoroutines(t *testing.T) {
	var m Mailbox
	const each = 1000
	ran := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range each {
				m.Put(func() { ran++ })
			}
		})
	}
	put := make(chan struct{})
	go func() {
		wg.Wait()
		close(put)
	}()
	for done := false; !done; {
		select {
		case <-put:
			done = true
		default:
		}
		m.Run()
	}
	if ran != 4*each {
		t.Errorf("ran %d functions, want %d", ran, 4*each)
	}
}
