package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// openStores opens the stores of the demo: memory and a file.
func (d *demo) openStores() error {
	m, err := memory.New(memory.Config{Size: d.size, BlockSize: 512})
	if err != nil {
		return err
	}
	d.later(m.Close)
	dir, err := os.MkdirTemp(d.dir(), "nvmeof-demo-")
	if err != nil {
		return fmt.Errorf("directory for the file namespace: %w (select another with --dir)", err)
	}
	d.later(func() error { return os.RemoveAll(dir) })
	path := filepath.Join(dir, "disk.img")
	f, err := file.Open(path, file.Config{Size: d.size, BlockSize: 512, LockedThreads: true})
	if err != nil {
		return err
	}
	d.later(f.Close)
	d.exports = []demoExport{{name: "memory", store: m}, {name: "file", store: f}}
	how := "direct I/O"
	if !f.Direct() {
		how = "through the page cache"
	}
	d.say("stores", "memory, %d MiB; file %s, %d MiB, %s", d.size>>20, path, d.size>>20, how)
	for _, note := range f.Notes() {
		d.say("note", "%s", note)
	}
	return nil
}

// dir returns the directory for the file: one on a disk, if there is any, since a file in memory would show little.
func (d *demo) dir() string {
	if d.flags.dir != "" {
		return d.flags.dir
	}
	cache, _ := os.UserCacheDir()
	for _, dir := range []string{"/var/tmp", os.TempDir(), cache, "."} {
		if dir != "" && onDisk(dir) && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	d.say("note", "no directory on a disk is writable, so the file namespace is in memory too (select another directory with --dir)")
	return os.TempDir()
}

func onDisk(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return false
	}
	kind := uint32(s.Type) // a 32-bit magic number, signed or unsigned depending on the architecture
	return kind != unix.TMPFS_MAGIC && kind != unix.RAMFS_MAGIC
}

// writeAndVerify fills both namespaces and verifies the data, so that the later measurements read blocks that were
// written.
func (d *demo) writeAndVerify(ctx context.Context) error {
	for _, e := range d.exports {
		began := time.Now()
		if err := fillAndCompare(ctx, e.ns); err != nil {
			return fmt.Errorf("namespace %d (%s): %w", e.ns.ID(), e.name, err)
		}
		d.say("verify", "namespace %d (%s): %d MiB written, flushed and read back in %.1f s: the same", e.ns.ID(), e.name,
			e.ns.Size()>>20, time.Since(began).Seconds())
	}
	fmt.Fprintln(d.out)
	return nil
}

// chunk is the size of each write and read of fillAndCompare.
const chunk = 1 << 20

func fillAndCompare(ctx context.Context, ns *host.Namespace) error {
	seed := [32]byte{}
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	want, got := make([]byte, chunk), make([]byte, chunk)
	source := rand.NewChaCha8(seed)
	for off := int64(0); off < ns.Size() && ctx.Err() == nil; off += chunk {
		_, _ = source.Read(want) // never fails
		if _, err := ns.WriteAt(want, off); err != nil {
			return fmt.Errorf("write at %d: %w", off, err)
		}
	}
	if err := ns.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	source.Seed(seed)
	for off := int64(0); off < ns.Size() && ctx.Err() == nil; off += chunk {
		_, _ = source.Read(want)
		if _, err := ns.ReadAt(got, off); err != nil {
			return fmt.Errorf("read at %d: %w", off, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%w within 1 MiB of offset %d", errWrongData, off)
		}
	}
	return context.Cause(ctx)
}

var errWrongData = errors.New("what was read is not what was written")
