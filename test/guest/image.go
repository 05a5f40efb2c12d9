package guest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CacheEnv names the environment variable that overrides the cache directory.
const CacheEnv = "NVMEOF_GUEST"

const systemCache = "/var/cache/nvmeof-guest"

//go:embed init.sh
var initScript string

// An Image is the location of a guest's disk, kernel and initial RAM disk, built or not. Its name has a digest of the
// recipe, so that a changed recipe makes another image.
type Image struct {
	dir string
}

// Find returns the image of the current recipe: below [CacheEnv] if that is set, else below /var/cache for root, else
// below the user's cache directory.
func Find() (Image, error) {
	cache, err := cacheDir()
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256([]byte(strings.Join(recipe(), "\n") + initScript))
	return Image{filepath.Join(cache, "debian13-"+hex.EncodeToString(sum[:6]))}, nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 && os.MkdirAll(systemCache, 0o755) == nil && unix.Access(systemCache, unix.W_OK) == nil {
		return systemCache, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the guest image: %w; set %s to a directory", err, CacheEnv)
	}
	return filepath.Join(dir, "nvmeof", "guest"), nil
}

// Dir returns the image's directory, which need not exist yet.
func (m Image) Dir() string { return m.dir }

func (m Image) disk() string   { return filepath.Join(m.dir, "disk.img") }
func (m Image) kernel() string { return filepath.Join(m.dir, "vmlinuz") }
func (m Image) initrd() string { return filepath.Join(m.dir, "initrd") }

// Built reports whether the image exists.
func (m Image) Built() bool {
	_, err := os.Stat(m.disk())
	return err == nil
}

// Build makes the image unless it exists. It takes about 80 s, needs root, debootstrap, mke2fs and a Debian mirror, and
// writes its progress to log. Processes that want the same image wait for the first one.
func (m Image) Build(ctx context.Context, log io.Writer) error {
	if m.Built() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.dir), 0o755); err != nil {
		return fmt.Errorf("guest image: %w; set %s to a directory that you may write", err, CacheEnv)
	}
	unlock, err := lock(m.dir + ".lock")
	if err != nil {
		return fmt.Errorf("guest image: %w", err)
	}
	defer unlock()
	if m.Built() {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("guest image: it is not built yet and debootstrap needs root: " +
			"run the same command once as root with " + CacheEnv + "=" + filepath.Dir(m.dir))
	}
	return m.build(ctx, log)
}

// lock waits for the exclusive lock on a file. The kernel releases the lock at the latest when the process ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
