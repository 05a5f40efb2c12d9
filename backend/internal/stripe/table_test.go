package stripe

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func want(t *testing.T, got, want Outcome, what string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: outcome %d, want %d", what, got, want)
	}
}

// wantFree fails unless every word is zero.
func wantFree(t *testing.T, table *Table) {
	t.Helper()
	for i := range table.words {
		if w := table.words[i].Load(); w != 0 {
			t.Fatalf("word %d is %#x after everything was released", i, w)
		}
	}
}

func TestSharedAndExclusive(t *testing.T) {
	table := New(1 << 20)
	want(t, table.Try(0, 8192, false), Taken, "first reader")
	want(t, table.Try(4096, 4096, false), Taken, "second reader")
	want(t, table.Try(8192, 512, true), Taken, "writer beside them")
	want(t, table.Try(8704, 512, true), Held, "writer of the same stripe")
	want(t, table.Try(12288, 512, true), Taken, "writer of the next stripe")
	want(t, table.Try(0, 16384, false), Held, "reader across a writer")
	table.Release(0, 8192, false)
	table.Release(4096, 4096, false)
	table.Release(8192, 512, true)
	table.Release(12288, 512, true)
	wantFree(t, table)
	want(t, table.Try(0, 0, true), Taken, "nothing at all")
	table.Release(0, 0, true)
	wantFree(t, table)
}

// A failed attempt takes nothing, wherever in its range it failed.
func TestAllOrNothing(t *testing.T) {
	for at := range int64(16) {
		table := New(16 * granule)
		want(t, table.Try(at*granule, granule, true), Taken, "holder")
		want(t, table.Try(0, 16*granule, true), Held, "writer over all")
		want(t, table.Try(0, 16*granule, false), Held, "reader over all")
		table.Release(at*granule, granule, true)
		wantFree(t, table)
	}
}

func TestSpan(t *testing.T) {
	table := New(maxStripes * granule * 4)
	const end = maxStripes * granule
	tests := []struct {
		offset, length int64
		want           span
	}{
		{0, 1, span{0, 0, 1}},
		{4095, 2, span{0, 0, 2}},
		{4096, 4096, span{0, 1, 2}},
		{end - 4096, 8192, span{1, maxStripes - 1, maxStripes}},
		{end + 4096, 4096, span{0, 1, 2}},
		{0, end, span{0, 0, maxStripes}},
		{5, end, span{0, 0, maxStripes}},
		{0, 4 * end, span{0, 0, maxStripes}},
		{77, 0, span{}},
	}
	for _, tt := range tests {
		if got := table.span(tt.offset, tt.length); got != tt.want {
			t.Errorf("span(%d, %d) = %+v, want %+v", tt.offset, tt.length, got, tt.want)
		}
	}
	// A range that wraps around: both parts are taken and released.
	want(t, table.Try(end-4096, 8192, true), Taken, "around the end")
	want(t, table.Try(0, 512, false), Held, "reader at the start")
	want(t, table.Try(end-512, 512, false), Held, "reader at the end")
	table.Release(end-4096, 8192, true)
	wantFree(t, table)
}

// Readers that overlap continuously let a writer through.
func TestWriterIsNotStarved(t *testing.T) {
	table := New(1 << 20)
	want(t, table.Try(0, 512, false), Taken, "reader")
	want(t, table.Try(0, 4096, true), Held, "writer")
	want(t, table.Try(0, 512, false), Held, "reader behind the writer")
	table.Release(0, 512, false)
	for range 100 {
		want(t, table.Try(0, 512, false), Yielded, "reader before the writer's turn")
	}
	want(t, table.Try(0, 4096, true), Taken, "writer's turn")
	table.Release(0, 4096, true)
	want(t, table.Try(0, 512, false), Taken, "reader afterwards")
	table.Release(0, 512, false)
	wantFree(t, table)
}

// The marks of a writer on many stripes accumulate, so that it gets them all.
func TestWideWriterIsNotStarved(t *testing.T) {
	table := New(64 * granule)
	held := int64(0)
	want(t, table.Try(0, granule, false), Taken, "reader")
	for try := 0; ; try++ {
		if try == 100 {
			t.Fatal("writer starved by readers that move through its range")
		}
		if table.Try(0, 64*granule, true) == Taken {
			break
		}
		// One reader is always in the range: the next one enters before the last one leaves.
		next := (held + 7) % 64
		if table.Try(next*granule, granule, false) == Taken {
			table.Release(held*granule, granule, false)
			held = next
			continue
		}
		table.Release(held*granule, granule, false)
		want(t, table.Try(0, 64*granule, true), Taken, "writer after the last reader")
		break
	}
	table.Release(0, 64*granule, true)
	wantFree(t, table)
}

// A writer that gave up does not lock out readers.
func TestMarkWearsOff(t *testing.T) {
	table := New(1 << 20)
	want(t, table.Try(0, 512, false), Taken, "reader")
	want(t, table.Try(0, 512, true), Held, "writer, which then gives up")
	table.Release(0, 512, false)
	for range maxRefusals / refusalOne {
		want(t, table.Try(0, 512, false), Yielded, "reader")
	}
	want(t, table.Try(0, 512, false), Taken, "reader after the mark wore off")
	table.Release(0, 512, false)
	wantFree(t, table)
}

// A writer that waits for another writer leaves no mark against readers.
func TestReaderIsNotStarved(t *testing.T) {
	table := New(1 << 20)
	want(t, table.Try(0, 512, true), Taken, "writer")
	want(t, table.Try(0, 512, true), Held, "next writer")
	table.Release(0, 512, true)
	want(t, table.Try(0, 512, false), Taken, "reader between them")
}

func TestReadersAreBounded(t *testing.T) {
	table := New(granule)
	for range readersMask {
		want(t, table.Try(0, 512, false), Taken, "reader")
	}
	want(t, table.Try(0, 512, false), Held, "one reader too many")
	for range readersMask {
		table.Release(0, 512, false)
	}
	wantFree(t, table)
}

func TestWaiter(t *testing.T) {
	table := New(1 << 20)
	woken := 0
	w := table.Join(func() { woken++ })
	other := table.Join(func() { t.Error("a waiter that did not arm was woken") })
	want(t, table.Try(0, 512, true), Taken, "holder")
	w.Arm()
	w.Arm()
	want(t, table.Try(8192, 512, true), Taken, "other holder")
	table.Release(8192, 512, true)
	table.Release(0, 512, true)
	if woken != 1 {
		t.Errorf("woken %d times by two releases after arming, want once", woken)
	}
	// A failed attempt leaves no reason to try again.
	want(t, table.Try(4096, 4096, true), Taken, "holder")
	w.Arm()
	want(t, table.Try(0, 8192, true), Held, "attempt")
	if woken != 1 {
		t.Error("a failed attempt woke the waiter")
	}
	w.Arm()
	w.Leave()
	other.Leave()
	if n := table.armed.Load(); n != 0 {
		t.Errorf("%d waiters armed after all left", n)
	}
}

// Counters protected only by stripes. The race detector and the sums show whether exclusive access is exclusive, and
// waiters whether a wakeup gets lost.
func TestConcurrent(t *testing.T) {
	const stripes, workers, rounds = 8, 4, 1000
	table := New(stripes * granule)
	var count [stripes]int
	var waits atomic.Int64
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			wake := make(chan struct{}, 1)
			w := table.Join(func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			})
			defer w.Leave()
			seed := uint32(n + 1)
			for range rounds {
				seed = seed*1664525 + 1013904223
				lo := int64(seed>>8) % stripes
				length := (int64(seed>>16)%(stripes-lo) + 1) * granule
				exclusive := seed>>28 < 8
				for table.Try(lo*granule, length, exclusive) != Taken {
					w.Arm()
					out := table.Try(lo*granule, length, exclusive)
					if out == Taken {
						break
					}
					if out == Held {
						waits.Add(1)
						<-wake
					}
				}
				sum := 0
				for i := lo; i < lo+length/granule; i++ {
					if exclusive {
						count[i]++
					}
					sum += count[i]
				}
				if seed>>20&7 == 0 {
					runtime.Gosched()
				}
				table.Release(lo*granule, length, exclusive)
			}
		})
	}
	wg.Wait()
	t.Logf("waited %d times", waits.Load())
}

func BenchmarkTry(b *testing.B) {
	table := New(1 << 30)
	for _, bb := range []struct {
		name      string
		length    int64
		exclusive bool
	}{
		{"read4k", 4096, false}, {"write4k", 4096, true},
		{"read128k", 1 << 17, false}, {"write128k", 1 << 17, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			offset := int64(0)
			for b.Loop() {
				offset = (offset + 1<<17) & (1<<30 - 1)
				table.Try(offset, bb.length, bb.exclusive)
				table.Release(offset, bb.length, bb.exclusive)
			}
		})
	}
}

func TestShare(t *testing.T) {
	big := New(2 << 30) // half as many words as granules: places 1 GiB apart share one
	for _, c := range []struct {
		table      *Table
		a, n, b, m int64
		want       bool
	}{
		{New(1 << 20), 0, 4096, 4096, 4096, false},
		{New(1 << 20), 0, 4097, 4096, 4096, true},
		{New(1 << 20), 512, 512, 1024, 512, true},
		{New(1 << 20), 8192, 4096, 0, 8192, false},
		{big, 0, 4096, 1 << 30, 4096, true},
		{big, 0, 4096, 1<<30 + 4096, 4096, false},
		{big, 1<<30 - 4096, 8192, 0, 4096, true}, // wraps
		{big, 4096, 4096, 2<<30 - 4096, 4096, false},
	} {
		if got := c.table.Share(c.a, c.n, c.b, c.m); got != c.want {
			t.Errorf("%d bytes at %d and %d at %d share: %v", c.n, c.a, c.m, c.b, got)
		}
		if got := c.table.Share(c.b, c.m, c.a, c.n); got != c.want {
			t.Errorf("the other way round: %v", got)
		}
	}
}

// A table in the caller's memory behaves like one in its own.
func TestTableInMemory(t *testing.T) {
	for _, size := range []int64{1, 4096, 5000, 1 << 20, 1<<30 + 1, 1 << 40} {
		b := Bytes(size)
		memory := make([]byte, b+8)
		table := NewIn(size, memory[:b])
		if len(table.words) != len(New(size).words) {
			t.Errorf("%d bytes: %d words, want %d", size, len(table.words), len(New(size).words))
		}
		if table.Try(0, size, true) != Taken || table.Try(size-1, 1, false) != Held {
			t.Errorf("%d bytes: not held", size)
		}
		table.Release(0, size, true)
		if !table.Free() || memory[b] != 0 {
			t.Errorf("%d bytes: still held, or held beyond the memory", size)
		}
	}
}
