package tidy

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPublicPackages checks the list of packages that other modules can import and prints them with -v.
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

func TestEveryPublicPackageHasAnExample(t *testing.T) { report(t, unexampled(sources(t))) }

func TestProgramsAreShort(t *testing.T) {
	for _, name := range programs {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxProgram {
			t.Errorf("%s has %d lines, at most %d", name, n, maxProgram)
		}
	}
}
