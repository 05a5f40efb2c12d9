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
	parts := withPartitions(dir)
	if len(parts) != 3 || parts[0].number != "8:0" || parts[1].name != "sda1" || parts[2].number != "8:2" {
		t.Errorf("partitions: %+v", parts)
	}
}

func TestFindMount(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
36 22 8:1 /sub /srv/my\040disk rw,noatime shared:1 - xfs /dev/sda1 rw
37 22 0:44 / /pool rw - btrfs /dev/sdc rw
nonsense
38 22 8:17
`
	for number, want := range map[string]string{"8:1": "/srv/my disk", "254:0": "/", "8:2": "", "8:17": ""} {
		if got := findMount(strings.NewReader(table), []part{{number: number, name: "x"}}); got != want {
			t.Errorf("%s is mounted on %q, want %q", number, got, want)
		}
	}
	if got := findMount(strings.NewReader(table), []part{{number: "8:32", name: "sdc"}}); got != "/pool" {
		t.Errorf("sdc is mounted on %q", got)
	}
	if got := quoted("/srv/my disk"); got != "'/srv/my disk'" || quoted("/srv/a_b-1.x") != "/srv/a_b-1.x" {
		t.Errorf("quoted: %s", got)
	}
}

func TestInUseWords(t *testing.T) {
	for want, e := range map[string]InUseError{
		"run: umount /srv":      {User: "mounted on /srv", Mend: "umount /srv"},
		"stop that first":       {User: "in use by process 7 (x)"},
		"lsblk /dev/sdx":        {},
		"export it once":        {User: "in use by this process", here: true},
		"/dev/sdx is part of /": {User: "part of /dev/md0", Mend: "mdadm --stop /dev/md0"},
	} {
		e.Path = "/dev/sdx"
		if !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "force") {
			t.Errorf("%q: want %q in it", e.Error(), want)
		}
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
