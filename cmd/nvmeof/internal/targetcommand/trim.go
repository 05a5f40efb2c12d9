package targetcommand

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	trimEvery = 10 * time.Second
	trimLeast = 64 << 20 // bytes that are not worth it
)

// A trimmer gives memory back to the machine that a large change of the configuration has left. The runtime
// keeps it for a heap twice as large as the one that there was.
type trimmer struct {
	after uint64 // bytes of the process when it last did so
	last  uint64 // when it last looked
}

// due reports whether the process, which has so many bytes, has many more than after the last time, and
// does not grow now.
func (t *trimmer) due(bytes uint64) bool {
	quiet := bytes <= t.last+t.last/64
	t.last = bytes
	return quiet && bytes > t.after+t.after/4+trimLeast
}

// look is called every trimEvery. It collects garbage, and takes some 0.1 s, where there is much to give back.
func (t *trimmer) look() {
	if t.due(memoryOfRuntime()) {
		debug.FreeOSMemory()
		t.after = memoryOfRuntime()
		t.last = t.after
	}
}

// memoryOfRuntime is what the runtime has from the machine, in bytes.
func memoryOfRuntime() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
