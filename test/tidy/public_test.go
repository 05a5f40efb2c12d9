package tidy

import (
	"maps"
	"slices"
	"testing"
)

// TestPublicPackages prints, with -v, the packages that other modules can import.
func TestPublicPackages(t *testing.T) {
	report(t, unlisted(packagesOf(sources(t))))
	for _, dir := range slices.Sorted(maps.Keys(public)) {
		t.Logf("%-29s %s", dir, public[dir])
	}
	t.Logf("%d public packages", len(public))
}

func TestUnlistedIsFound(t *testing.T) {
	packages := map[string]string{"cmd/nvmeof": "main", "test/x": "x", "a/internal/b": "b"}
	for dir := range public {
		packages[dir] = "x"
	}
	wantFindings(t, "", unlisted(packages))
	packages["nvmeof/leak"] = "leak"
	wantFindings(t, "nvmeof/leak", unlisted(packages))
	delete(packages, "nvmeof/leak")
	delete(packages, "capsule")
	wantFindings(t, "capsule", unlisted(packages))
}
