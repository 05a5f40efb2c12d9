package connections

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaimOfLink checks that a symbolic link in place of a claim's file is not followed, and leads to an error rather
// than an endless loop.
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

// TestFolderOfAnother checks that root's directory is used if the variables that name the user's own are not set.
func TestFolderOfAnother(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to all folders")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	err := makeDir(dir, os.Getuid())
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR, or else below HOME") {
		t.Error(err)
	}
}

// TestNoFolder checks that the error for an ordinary user names the variables that select the directory.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for uid, more := range map[int]bool{0: false, 1000: true} {
		err := makeDir(filepath.Join(file, "run"), uid)
		if err == nil || !strings.Contains(err.Error(), "NVMEOF_RUN_DIR") || strings.Contains(err.Error(), "XDG_RUNTIME_DIR, or else below HOME") != more {
			t.Errorf("user %d: %v", uid, err)
		}
	}
}
