package connections

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Dir returns the directory in which processes find each other: NVMEOF_RUN_DIR if set, else /run/nvmeof-host for root
// and a per-user directory for others. It is not the runtime directory of the target's service, which is removed with
// the service.
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

// RunDir returns [Dir] for this process.
func RunDir() string { return Dir(os.Getenv, os.Getuid()) }

// makeDir creates that directory. If it cannot be created or belongs to another user, the error says what it is for.
func makeDir(dir string, uid int) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		// Without XDG_RUNTIME_DIR and HOME the directory is root's, which exists once root has connected.
		if err = unix.Access(dir, unix.W_OK|unix.X_OK); err == nil {
			return nil
		}
		err = &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	remedy := "set NVMEOF_RUN_DIR in the environment to another directory"
	if uid != 0 {
		remedy += "; without it the directory is below XDG_RUNTIME_DIR, or else below HOME"
	}
	return fmt.Errorf("cannot use directory %s for the names and sockets of connections: %w; %s", dir, err, remedy)
}

// A claim is a number that this process owns.
type claim struct {
	number int

	mu   sync.Mutex // guards the fields below once the number belongs to a controller
	file *os.File
	past past // contents of the file
}

// A past records what a number was last used for. Programs find disks by names that contain the number, and keep using
// them when the process that holds the disks is restarted: the names must not lead them to another subsystem or
// namespace. The zero value means that the number was not used by a subsystem.
type past struct {
	Subsystem  nvmeof.NQN           `json:"subsystem"`
	Namespaces map[capsule.NSID]int `json:"namespaces,omitempty"` // number of each namespace
	// Disks records the namespace that each number was given to. A different namespace with the same NSID gets a
	// different number.
	Disks map[int]string `json:"disks,omitempty"`
}

// unknown is the Subsystem of a past that cannot be read.
const unknown = "unknown"

// maxNumber limits the number of controllers on a machine.
const maxNumber = 4096

// maxPast is the maximum size of a past that is read, in bytes; those that are written are much smaller.
const maxPast = 8 << 20

// claimNumber claims a number for a subsystem: the one that it had before, else the lowest that no subsystem had, else
// the lowest that is free. An empty nqn claims a number for a further controller of a subsystem.
func claimNumber(dir string, nqn nvmeof.NQN) (*claim, error) {
	if err := makeDir(dir, os.Getuid()); err != nil {
		return nil, err
	}
	had, err := subsystemsOf(dir)
	if err != nil {
		return nil, err
	}
	for _, n := range inTurn(had, nqn) {
		c, err := tryClaim(dir, n)
		if c == nil && err == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains([]nvmeof.NQN{"", nqn, had[n]}, c.past.Subsystem) {
			entries, _ := os.ReadDir(dir) // if this fails they stay, and nobody serves them
			for _, e := range entries {
				// A process that was killed leaves the sockets of its disks behind. No process replaces those of disks
				// that no longer exist.
				if is, _ := filepath.Match(fmt.Sprintf("nvme%dn[0-9]*%s", n, suffix), e.Name()); is {
					_ = socketfile.RemoveDead(filepath.Join(dir, e.Name()))
				}
			}
			return c, nil
		}
		if err := c.file.Close(); err != nil { // another process used it after subsystemsOf
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %d controllers are connected: too many", dir, maxNumber)
}

// inTurn returns the numbers in the order in which they are tried for a subsystem.
func inTurn(had map[int]nvmeof.NQN, nqn nvmeof.NQN) []int {
	var its, unused, others []int
	for n := range maxNumber {
		switch had[n] {
		case "":
			unused = append(unused, n)
		case nqn:
			its = append(its, n)
		default:
			others = append(others, n)
		}
	}
	return slices.Concat(its, unused, others)
}

// subsystemsOf returns the subsystem that each number was last used for.
func subsystemsOf(dir string) (map[int]nvmeof.NQN, error) {
	entries, err := os.ReadDir(dir)
	had := map[int]nvmeof.NQN{}
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "nvme%d.lock", &n); err == nil {
			had[n] = readPast(claimPath(dir, n)).Subsystem
		}
	}
	return had, err
}

func claimPath(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("nvme%d.lock", n)) }

// readPast reads the past in a file, which need not exist.
func readPast(name string) past {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return past{}
	}
	defer f.Close()
	return decodePast(f)
}

// decodePast reads the past in an open file. Anything after it is left over from a longer one.
func decodePast(f *os.File) (p past) {
	err := json.NewDecoder(io.NewSectionReader(f, 0, maxPast)).Decode(&p)
	switch {
	case errors.Is(err, io.EOF):
		return past{}
	case err != nil:
		return past{Subsystem: unknown}
	}
	return p
}

// damaged returns the files of unclaimed numbers that cannot be decoded, so that their subsystem is not known.
func damaged(dir string) (files []string) {
	had, _ := subsystemsOf(dir)
	for _, n := range slices.Sorted(maps.Keys(had)) {
		if had[n] != unknown {
			continue
		}
		c, err := tryClaim(dir, n)
		if c == nil || err != nil { // a process holds it, and writes the file
			continue
		}
		if c.past.Subsystem == unknown {
			files = append(files, c.file.Name())
		}
		_ = c.file.Close()
	}
	return files
}

// tryClaim claims a number, or returns nil if another process holds it. A claim is a lock on the number's file. A file
// is removed only while it is locked; tryClaim therefore checks, once it has the lock, that the path still names this
// file.
func tryClaim(dir string, n int) (*claim, error) {
	path := claimPath(dir, n)
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
			return &claim{number: n, file: f, past: decodePast(f)}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// remember records in the file what the number is used for.
func (c *claim) remember(p past) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(p)
}

// write is remember with mu held.
func (c *claim) write(p past) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c.past = p
	text = append(text, '\n')
	// On a full file system the write would be partial and destroy the old contents. Reserve the space first.
	err = unix.Fallocate(int(c.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(text)))
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) { // not all file systems support fallocate
		_, err = c.file.WriteAt(text, 0)
	}
	if err == nil {
		err = c.file.Truncate(int64(len(text)))
	}
	if err != nil {
		return fmt.Errorf("%s, for the names of disks: %w", c.file.Name(), err)
	}
	return nil
}

// renew claims the number again if its file was removed, for example with the whole directory. Otherwise the next
// process would claim the same number.
func (c *claim) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours, err := c.file.Stat()
	there, err2 := os.Lstat(c.file.Name())
	if err != nil || err2 == nil && os.SameFile(ours, there) {
		return err
	}
	next, err := tryClaim(filepath.Dir(c.file.Name()), c.number)
	if err != nil {
		return err
	}
	if next == nil {
		return fmt.Errorf("%s was removed, and another process now also has the name nvme%d: disconnect one of them", c.file.Name(), c.number)
	}
	_ = c.file.Close() // the old file has no name any more
	if c.file = next.file; c.past.Subsystem == "" {
		return nil
	}
	return c.write(c.past)
}

// release gives the number back. The file of a number that a subsystem used stays.
func (c *claim) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.past.Subsystem != "" {
		return c.file.Close()
	}
	return errors.Join(os.Remove(c.file.Name()), c.file.Close())
}
