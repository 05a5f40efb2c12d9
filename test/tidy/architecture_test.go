package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestArchitecture: the directories and files that ARCHITECTURE.md names exist.
func TestArchitecture(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(?:go test (?:-[a-z]+ )*\\./)?([a-z.]+(?:/[a-zA-Z.]+)+|capsule|backend|deploy|docs)[ `]").FindAllStringSubmatch(string(page), -1)
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names what is not there: %v", err)
		}
	}
	if len(named) < 60 {
		t.Errorf("%d folders and files found on the page", len(named))
	}
}
