package file

import (
	"path/filepath"
	"testing"
)

// TestTryURing: its result is that of a store that requires io_uring.
func TestTryURing(t *testing.T) {
	why := TryURing()
	s, err := Open(filepath.Join(t.TempDir(), "disk"), Config{Size: 1 << 20, Engine: EngineURing})
	if (why == nil) != (err == nil) {
		t.Errorf("it says %v, and a store %v", why, err)
	}
	if err == nil {
		closeStore(t, s)
	}
}
