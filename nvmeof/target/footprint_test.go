package target

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestFootprint: an unused namespace needs little memory; memory for commands is allocated with the first ones.
func TestFootprint(t *testing.T) {
	const namespaces, limit = 400, 16 << 10 // bytes each
	for _, shards := range []int{1, 2, 4} {
		f := newFixture(t, func(c *Config) { c.Shards = shards })
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		var stores []*memory.Store
		before := heap()
		for range namespaces {
			s, err := memory.New(memory.Config{Size: 16 << 20, BlockSize: 512})
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
			if _, err := f.sub.AddNamespace(NamespaceConfig{Store: s}); err != nil {
				t.Fatal(err)
			}
		}
		if each := (heap() - before) / namespaces; each > limit {
			t.Errorf("%d shards: %d bytes each, want at most %d", shards, each, limit)
		} else {
			t.Logf("%d shards: %d bytes each", shards, each)
		}
		if err := f.target.Close(); err != nil {
			t.Fatal(err)
		}
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFootprintElsewhere: so does a namespace that another target serves, and a thousand of them are added within
// seconds.
func TestFootprintElsewhere(t *testing.T) {
	const subsystems, namespaces, limit = 1, 1000, 16 << 10 // bytes each
	f, _ := withGateway(t)
	info := newNullStore(16 << 20).info
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i := range subsystems {
		s, err := f.target.AddSubsystem(SubsystemConfig{NQN: nvmeof.NQN(fmt.Sprintf("%s:%d", testSubNQN, i))})
		f.must(err)
		for id := range namespaces {
			f.must(s.AwaitNamespace(NamespaceConfig{NSID: capsule.NSID(id + 1), Known: &info, Name: "disk"}))
		}
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / subsystems / namespaces; each > limit {
		t.Errorf("%d bytes each, want at most %d", each, limit)
	} else {
		t.Logf("%d bytes each, %v for all", each, took.Round(time.Millisecond))
	}
}

// TestRequestMemory compares what requests are said to take with what they do take, once a host has used commands
// that need an extra.
func TestRequestMemory(t *testing.T) {
	const n = 1000
	allocated := func() int { // goroutines of earlier tests may still free memory
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.TotalAlloc)
	}
	q, before := &queue{}, allocated()
	q.requests = make([]request, n)
	for i := range q.requests {
		q.requests[i].init(q)
		q.requests[i].wantExtra()
	}
	each := (allocated() - before) / n
	t.Logf("said to take %d bytes, takes %d", requestMemory, each)
	if each > requestMemory+requestMemory/20 || each < requestMemory*3/4 {
		t.Errorf("a request takes %d bytes, and is said to take %d", each, requestMemory)
	}
}
