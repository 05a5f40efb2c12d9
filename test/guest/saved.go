package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A saved state is that of a guest that had booted and waited for its first script: its memory, its devices, and what
// it had written to its disk. The first guest of its kind makes it; any number of guests start from it, in a second.
// They map its memory file privately, and so share the pages that they have not changed.
//
// Guests of one state differ in time and random numbers, but not in values that the kernel chose at boot: boot_id, keys
// of hash tables.
type saved struct{ dir string }

// keptStates is how many states are kept, those that were used last. Each has about 400 MiB.
const keptStates = 8

// restoreLimit is many times the time of a start from a saved state on two idle cores.
const restoreLimit = 30 * time.Second

// ignoreShared makes QEMU leave memory in a shared file out of the state.
var ignoreShared = arguments{"capabilities": []arguments{{"capability": "x-ignore-shared", "state": true}}}

// findSaved returns the location of the state for guests of a configuration. It is below the image's, and its name is a
// digest of everything that the state depends on.
func findSaved(m Image, cfg Config) (saved, error) {
	version, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		return saved{}, fmt.Errorf("qemu-system-x86_64 --version: %w", err)
	}
	disk, err := os.Stat(m.disk()) // the image may have been rebuilt with newer packages
	if err != nil {
		return saved{}, err
	}
	of := append(cfg.machine(), string(version), agentScript, m.disk(), disk.ModTime().String())
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	return saved{filepath.Join(m.dir+".saved", hex.EncodeToString(sum[:6]))}, nil
}

func (s saved) file(name string) string { return filepath.Join(s.dir, name) }

func (s saved) there() bool {
	_, err := os.Stat(s.dir)
	return err == nil
}

// restore starts a guest from the saved state, which it makes if there is none.
func restore(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	s, err := findSaved(m, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.ensure(ctx, m, cfg); err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(s.dir, now, now); err != nil { // marks the state as used now
		return nil, err
	}
	g, err := s.start(ctx, m, cfg)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, os.RemoveAll(s.dir)) // the next guest makes a new one
	}
	return g, err
}

// start loads the state into a new QEMU, whose guest resumes at once.
func (s saved) start(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreLimit)
	defer cancel()
	g, err := launch(m, cfg, store{
		disk:     "format=qcow2,snapshot=on,file=" + s.file("disk.qcow2"),
		memory:   "share=off,mem-path=" + s.file("memory"),
		incoming: true,
	})
	if err != nil {
		return nil, err
	}
	if err := g.load(ctx, s); err != nil {
		g.Close()
		return nil, fmt.Errorf("%w\n%s", err, g.console())
	}
	g.restored = true
	return g, nil
}

func (g *Guest) load(ctx context.Context, s saved) error {
	if err := g.monitor.do("migrate-set-capabilities", ignoreShared, nil); err != nil {
		return err
	}
	if err := g.monitor.do("migrate-incoming", arguments{"uri": "exec:cat '" + s.file("state") + "'"}, nil); err != nil {
		return err
	}
	now := time.Now()
	if _, err := fmt.Fprintf(g.requests, "%d.%09d\n", now.Unix(), now.Nanosecond()); err != nil {
		return err
	}
	status, err := g.await(ctx, 0, nil)
	if err == nil && status != 0 {
		err = errors.New("the kernel has no new random numbers")
	}
	return err
}

// ensure makes the state unless it exists. Processes that want the same state wait for the first one.
func (s saved) ensure(ctx context.Context, m Image, cfg Config) error {
	if s.there() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	unlock, err := lock(s.dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if s.there() {
		return nil
	}
	partial := saved{s.dir + ".partial"}
	if err := os.RemoveAll(partial.dir); err != nil {
		return err
	}
	defer os.RemoveAll(partial.dir)
	if err := partial.make(ctx, m, cfg); err != nil {
		return err
	}
	if err := os.Rename(partial.dir, s.dir); err != nil {
		return err
	}
	return dropStates(filepath.Dir(filepath.Dir(s.dir)))
}

// make boots a guest, with a shared directory of its own, and saves it.
func (s saved) make(ctx context.Context, m Image, cfg Config) error {
	cfg.Share = s.file("share")
	if err := cfg.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(cfg.Share)
	disk := s.file("disk.qcow2")
	if err := command(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", m.disk(), disk); err != nil {
		return err
	}
	g, err := bootOn(ctx, m, cfg, store{disk: "format=qcow2,file=" + disk, memory: "share=on,mem-path=" + s.file("memory")})
	if err != nil {
		return err
	}
	defer g.Close()
	return g.save(ctx, s)
}

// save writes the state of a guest, and ends the guest.
func (g *Guest) save(ctx context.Context, s saved) error {
	ctx, cancel := context.WithTimeout(ctx, restoreLimit)
	defer cancel()
	if _, err := fmt.Fprintln(g.requests, "save"); err != nil {
		return err
	}
	status, err := g.await(ctx, -1, nil)
	if err == nil && status != 0 {
		err = fmt.Errorf("the guest is not fit to be saved\n%s", g.console())
	}
	if err == nil {
		err = g.monitor.do("migrate-set-capabilities", ignoreShared, nil)
	}
	if err == nil { // QEMU may report "completed" before the file has everything
		uri := fmt.Sprintf("exec:cat >'%[1]s.partial' && mv '%[1]s.partial' '%[1]s'", s.file("state"))
		err = g.monitor.do("migrate", arguments{"uri": uri}, nil)
	}
	for err == nil {
		var migration struct {
			Status      string
			Description string `json:"error-desc"`
		}
		err = g.monitor.do("query-migrate", nil, &migration)
		_, missing := os.Stat(s.file("state"))
		switch {
		case err != nil:
		case migration.Status == "failed":
			err = fmt.Errorf("QEMU cannot save the guest: %s", migration.Description)
		case migration.Status == "completed" && missing == nil:
			return g.quit(ctx)
		case ctx.Err() != nil:
			err = ctx.Err()
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
	return err
}

// quit ends QEMU, which completes its files.
func (g *Guest) quit(ctx context.Context) error {
	if err := g.monitor.do("quit", nil, nil); err != nil {
		return err
	}
	select {
	case <-g.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropStates removes all states of a cache except those used last. A running guest has its files open, and so survives
// their removal.
func dropStates(cache string) error {
	found, err := filepath.Glob(filepath.Join(cache, "*.saved", "*", "state"))
	if err != nil {
		return err
	}
	type used struct {
		dir string
		at  time.Time
	}
	var all []used
	for _, state := range found {
		dir := filepath.Dir(state)
		info, err := os.Stat(dir)
		if err == nil && !strings.HasSuffix(dir, ".partial") {
			all = append(all, used{dir, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b used) int { return b.at.Compare(a.at) })
	for _, u := range all[min(len(all), keptStates):] {
		err = errors.Join(err, os.RemoveAll(u.dir))
	}
	return err
}
