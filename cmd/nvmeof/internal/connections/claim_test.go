package connections

import (
	"os"
	"path/filepath"
	"testing"
)

// TestClaimOfLink: a link in the place of a claim leads to no other file, and is an error
// that ends.
func TestClaimOfLink(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(t.TempDir(), "missing")
	if err := os.Symlink(missing, filepath.Join(dir, "nvme0.lock")); err != nil {
		t.Fatal(err)
	}
	if c, err := claimNumber(dir, ""); err == nil {
		t.Errorf("claimed %d", c.number)
	}
	if _, err := os.Lstat(missing); err == nil {
		t.Error("the file that the link leads to was made")
	}
}
