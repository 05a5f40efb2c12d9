package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

func TestInfo(t *testing.T) {
	const size = 1<<30 + 512
	of := func(logical, physical int) geometry {
		return geometry{size: size, logical: logical, physical: physical, writeBack: true, canDiscard: true}
	}
	with := func(g geometry, change func(*geometry)) geometry { change(&g); return g }
	w := backend.Info{Size: size, BlockSize: 512, Alignment: 512, Optimal: 512, Volatile: true, Deallocate: true, Compare: true}
	want := func(change func(*backend.Info)) backend.Info { i := w; change(&i); return i }
	tests := []struct {
		name string
		g    geometry
		cfg  Config
		want backend.Info
		err  string
	}{
		{"512n", of(512, 512), Config{}, w, ""},
		{"512e", of(512, 4096), Config{}, want(func(i *backend.Info) { i.Optimal = 4096 }), ""},
		{"512e, big blocks", of(512, 4096), Config{BlockSize: 4096}, want(func(i *backend.Info) {
			i.Size, i.BlockSize, i.Optimal = 1<<30, 4096, 4096
		}), ""},
		{"512e, misaligned", with(of(512, 4096), func(g *geometry) { g.misaligned = true }), Config{BlockSize: 4096},
			want(func(i *backend.Info) { i.Size, i.BlockSize, i.Optimal, i.AtomicUnit = 1<<30, 4096, 4096, 512 }), ""},
		{"512n, big blocks", of(512, 512), Config{BlockSize: 4096}, want(func(i *backend.Info) {
			i.Size, i.BlockSize, i.Optimal, i.AtomicUnit = 1<<30, 4096, 4096, 512
		}), ""},
		{"4Kn", of(4096, 4096), Config{}, want(func(i *backend.Info) {
			i.Size, i.BlockSize, i.Alignment, i.Optimal = 1<<30, 4096, 4096, 4096
		}), ""},
		{"4Kn, small blocks", of(4096, 4096), Config{BlockSize: 512}, backend.Info{}, "bs=4096"},
		{"4Kn, small blocks, buffered", of(4096, 4096), Config{BlockSize: 512, Buffered: true}, want(func(i *backend.Info) {
			i.Alignment, i.Optimal = 1, 4096
		}), ""},
		{"RAID", with(of(512, 512), func(g *geometry) { g.minimum = 512 << 10 }), Config{},
			want(func(i *backend.Info) { i.Optimal = 512 << 10 }), ""},
		{"write through, no discard", with(of(512, 512), func(g *geometry) { g.writeBack, g.canDiscard = false, false }), Config{},
			want(func(i *backend.Info) { i.Volatile, i.Deallocate = false, false }), ""},
		{"write through, buffered", with(of(512, 512), func(g *geometry) { g.writeBack = false }), Config{Buffered: true},
			want(func(i *backend.Info) { i.Alignment = 1 }), ""},
		{"read-only", of(512, 512), Config{ReadOnly: true},
			want(func(i *backend.Info) { i.Volatile, i.Deallocate, i.Compare, i.ReadOnly = false, false, false, true }), ""},
		{"huge blocks", of(16384, 16384), Config{}, backend.Info{}, "only 512 and 4096"},
		{"SMR", with(of(512, 4096), func(g *geometry) { g.zoned = "host-managed" }), Config{}, backend.Info{}, "zoned"},
		{"tiny", with(of(512, 512), func(g *geometry) { g.size = 511 }), Config{}, backend.Info{}, "less than one block"},
	}
	for _, tt := range tests {
		got, err := tt.g.info(&tt.cfg)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || got != tt.want {
			t.Errorf("%s: %+v, %v\nwant %+v, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// A disk with a partition, as sysfs shows them.
func TestReadQueue(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"queue/write_cache": "write through\n", "queue/discard_max_bytes": "2147450880\n", "queue/zoned": "none\n",
		"dev": "8:0\n", "sda1/partition": "1\n", "sda1/dev": "8:1\n", "sda2/partition": "2\n", "sda2/dev": "8:2\n",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{dir, dir + "/sda1"} {
		var g geometry
		if g.readQueue(at); g.writeBack || !g.canDiscard || g.zoned != "none" {
			t.Errorf("%s: %+v", at, g)
		}
	}
	var g geometry
	if g.readQueue(dir + "/nowhere/else"); !g.writeBack || g.canDiscard {
		t.Errorf("nothing known: %+v: must assume a write cache", g)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		cfg  Config
		want string
	}{
		{file, Config{}, "not a block device"},
		{"/dev/null", Config{}, "not a block device"},
		{"/dev/no-such-disk", Config{}, "no such file"},
		{file, Config{BlockSize: 1024}, "block size 1024"},
	} {
		if s, err := Open(tt.path, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("Open(%s, %+v): %v, %v, want the path and %q", tt.path, tt.cfg, s, err, tt.want)
		}
	}
}
