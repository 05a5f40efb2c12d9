package connections

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is the folder in which processes find each other: NVMEOF_RUN_DIR, else
// /run/nvmeof-host for root and a folder of the user's own for others. It is not that
// of the target's service, which goes with it.
func Dir(getenv func(string) string, uid int) string {
	if dir := getenv("NVMEOF_RUN_DIR"); dir != "" {
		return dir
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" && uid != 0 {
		return filepath.Join(dir, "nvmeof", "host")
	}
	if home := getenv("HOME"); home != "" && uid != 0 {
		return filepath.Join(home, ".local", "state", "nvmeof", "host")
	}
	return "/run/nvmeof-host"
}

// RunDir is [Dir] of this process.
func RunDir() string { return Dir(os.Getenv, os.Getuid()) }

// A claim is a number that this process has.
type claim struct {
	number int
	file   *os.File
}

// maxNumber bounds how many controllers a machine has.
const maxNumber = 4096

// claimNumber takes the lowest free number.
func claimNumber(dir string) (*claim, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for n := range maxNumber {
		c, err := tryClaim(dir, n)
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, fmt.Errorf("%s: %d controllers are connected: too many", dir, maxNumber)
}

// tryClaim takes a number, unless somebody has it. Its file is locked, and goes while
// it still is: who opened it before finds another one, or none, in its place.
func tryClaim(dir string, n int) (*claim, error) {
	path := filepath.Join(dir, fmt.Sprintf("nvme%d.lock", n))
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, f.Close()
		}
		if err != nil {
			return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
		ours, err := f.Stat()
		there, err2 := os.Lstat(path)
		if err == nil && err2 == nil && os.SameFile(ours, there) {
			return &claim{n, f}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// release gives the number back.
func (c *claim) release() error {
	return errors.Join(os.Remove(c.file.Name()), c.file.Close())
}
