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

// makeDir makes that folder, and says what it is for where it cannot be made, or is another user's.
func makeDir(dir string, uid int) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		// Without XDG_RUNTIME_DIR and HOME it is root's, which is there where root has connected.
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

// A claim is a number that this process has.
type claim struct {
	number int

	mu   sync.Mutex // guards what follows once the number is a controller's
	file *os.File
	past past // what the file says
}

// A past is what a number was used for last. Programs find disks by names with that number,
// and go on when their process is restarted: it must not lead to another subsystem then, nor
// the name of a namespace to another namespace. The zero value is that of a number which was
// not used by a subsystem.
type past struct {
	Subsystem  nvmeof.NQN           `json:"subsystem"`
	Namespaces map[capsule.NSID]int `json:"namespaces,omitempty"` // their numbers
	// Disks says which namespace each number was given to: another one with its identifier has
	// another number.
	Disks map[int]string `json:"disks,omitempty"`
}

// unknown is the subsystem of a past that cannot be read.
const unknown = "unknown"

// maxNumber bounds how many controllers a machine has.
const maxNumber = 4096

// maxPast is far above what is written of the past of a number, in bytes.
const maxPast = 8 << 20

// claimNumber takes a number for a subsystem: the one that it had before, or the lowest that
// no other had, or where there is none, the lowest that is free. With no name it is for
// another controller of a subsystem.
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
			entries, _ := os.ReadDir(dir) // or they stay, and nobody is served there
			for _, e := range entries {
				// A process that was killed leaves the sockets of its disks, and those of disks that are no more nobody makes anew.
				if is, _ := filepath.Match(fmt.Sprintf("nvme%dn[0-9]*%s", n, suffix), e.Name()); is {
					_ = socketfile.RemoveDead(filepath.Join(dir, e.Name()))
				}
			}
			return c, nil
		}
		if err := c.file.Close(); err != nil { // somebody had it since it was looked at
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %d controllers are connected: too many", dir, maxNumber)
}

// inTurn is the order in which numbers are tried for a subsystem.
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

// subsystemsOf are those that numbers were used for last.
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

// readPast reads that of a file, which need not be there.
func readPast(name string) past {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return past{}
	}
	defer f.Close()
	return decodePast(f)
}

// decodePast reads that of an open file. What is behind it is left over from a longer one.
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

// damaged are the files of numbers that nobody has, of which it cannot be read whose they were.
func damaged(dir string) (files []string) {
	had, _ := subsystemsOf(dir)
	for _, n := range slices.Sorted(maps.Keys(had)) {
		if had[n] != unknown {
			continue
		}
		c, err := tryClaim(dir, n)
		if c == nil || err != nil { // somebody has it, and writes it
			continue
		}
		if c.past.Subsystem == unknown {
			files = append(files, c.file.Name())
		}
		_ = c.file.Close()
	}
	return files
}

// tryClaim takes a number, unless somebody has it. Its file is locked, and where it goes
// that is while it still is: who opened it before finds another one, or none, in its place.
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

// remember notes what the number is used for.
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
	// A file system that is full takes a part, and what the note had would be lost: it has the room before.
	err = unix.Fallocate(int(c.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(text)))
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) { // not all file systems can
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

// renew takes the number anew where somebody removed its file, with all that is in the folder,
// say: the next process would have it too.
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
	_ = c.file.Close() // nobody finds it any more
	if c.file = next.file; c.past.Subsystem == "" {
		return nil
	}
	return c.write(c.past)
}

// release gives the number back. That of a subsystem stays in memory.
func (c *claim) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.past.Subsystem != "" {
		return c.file.Close()
	}
	return errors.Join(os.Remove(c.file.Name()), c.file.Close())
}
