package disk

import "testing"

func TestEngineNames(t *testing.T) {
	for _, name := range []string{"auto", "uring", "threads"} {
		if e, err := ParseEngine(name); err != nil || e.String() != name {
			t.Errorf("ParseEngine(%q) = %v, %v", name, e, err)
		}
	}
	if _, err := ParseEngine("aio"); err == nil {
		t.Error("ParseEngine took aio")
	}
}
