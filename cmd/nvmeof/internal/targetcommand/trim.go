package targetcommand

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	trimEvery = 10 * time.Second
	trimLeast = 64 << 20 // bytes; less is not worth it
)

// A trimmer returns memory to the system after a large change of the configuration, since the runtime keeps enough for
// a heap twice as large as the former one.
type trimmer struct {
	after uint64 // bytes of the process after the last trim
	last  uint64 // bytes at the last look
}

// due reports whether the process, with so many bytes, has grown much since the last trim and does not grow at the
// moment.
func (t *trimmer) due(bytes uint64) bool {
	quiet := bytes <= t.last+t.last/64
	t.last = bytes
	return quiet && bytes > t.after+t.after/4+trimLeast
}

// look is called every trimEvery. If a trim is due, it collects garbage, which takes some 0.1 s.
func (t *trimmer) look() {
	if t.due(memoryOfRuntime()) {
		debug.FreeOSMemory()
		t.after = memoryOfRuntime()
		t.last = t.after
	}
}

// memoryOfRuntime returns how many bytes the runtime has from the system.
func memoryOfRuntime() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
