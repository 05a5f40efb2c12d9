package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestReport: a block counts once, and as executed if any test executed it; a package below its floor is reported by
// name and is a failure.
func TestReport(t *testing.T) {
	const profile = "mode: set\n" +
		module + "/capsule/a.go:1.2,3.4 19 0\n" +
		module + "/capsule/a.go:1.2,3.4 19 1\n" +
		module + "/capsule/b.go:1.2,3.4 1 0\n" +
		module + "/nvmeof/host/a.go:1.2,3.4 84 1\n" +
		module + "/nvmeof/host/a.go:5.2,6.4 16 0\n" +
		module + "/test/bench/a.go:5.2,6.4 16 0\n"
	parsed, err := parse(profile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, perPackage(parsed), false); !errors.Is(err, errBelow) {
		t.Errorf("a package below its floor: %v", err)
	}
	if said := out.String(); !strings.Contains(said, "nvmeof/host") || !strings.Contains(said, "84.0 %") || strings.Contains(said, "capsule") || strings.Contains(said, "bench") {
		t.Errorf("it says\n%s", said)
	}
	for _, bad := range []string{"x", "a.go:1.2,3.4 many 1", "a.go:1.2,3.4 1"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was taken for a line of a profile", bad)
		}
	}
}

func TestFailed(t *testing.T) {
	const said = "ok  \texample.org/a\t0.1s\n--- FAIL: TestB (0.00s)\nFAIL\ncoverage: 3.0% of statements in ./...\nFAIL\texample.org/b\t0.2s\nFAIL\texample.org/b\t0.2s\nFAIL\n"
	if got, want := failed(said), []string{"example.org/b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
