package targetcommand

import (
	"runtime"
	"testing"
)

// TestTrim checks that the memory left by a large change is returned once, when the process does not grow any more.
func TestTrim(t *testing.T) {
	var x trimmer
	for i, step := range []struct {
		mib uint64
		due bool
	}{
		{20, false}, {20, false}, {700, false}, {800, false}, {805, true}, {800, true},
	} {
		if got := x.due(step.mib << 20); got != step.due {
			t.Errorf("step %d: %v", i, got)
		}
	}
	x.after = 500 << 20
	for i, mib := range []uint64{500, 500, 600, 600, 680, 680, 700} {
		if x.due(mib << 20) {
			t.Errorf("step %d: due at %d MiB", i, mib)
		}
	}
	if !x.due(700 << 20) {
		t.Error("not due at 700 MiB")
	}

	garbage := make([]byte, 256<<20)
	for at := 0; at < len(garbage); at += 4096 {
		garbage[at] = 1
	}
	runtime.KeepAlive(garbage)
	garbage = nil
	x = trimmer{}
	x.look()
	before := x.last
	x.look()
	if x.after == 0 || x.after+trimLeast > before {
		t.Errorf("%d MiB after %d MiB", x.after>>20, before>>20)
	}
}
