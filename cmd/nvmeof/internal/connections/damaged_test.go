package connections

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// TestDamagedNote: who connects is told, once, that names are nobody's since their note is damaged, and of which process another one writes
// the note nothing.
func TestDamagedNote(t *testing.T) {
	r := newRig(t)
	defer r.holder.Close()
	dir := r.holder.config.Dir
	if err := os.WriteFile(claimPath(dir, 0), []byte(`{"subsystem":"a","name`), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := tryClaim(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.release()
	if _, err := other.file.WriteString(`{"sub`); err != nil {
		t.Fatal(err)
	}
	r.connect("a", "192.0.2.1", "nvme2")
	r.connect("b", "192.0.2.1", "nvme3")
	r.mu.Lock()
	defer r.mu.Unlock()
	said := 0
	for _, line := range r.log {
		if strings.Contains(line, "is damaged") {
			said++
			if !strings.Contains(line, "rm "+claimPath(dir, 0)) {
				t.Error(line)
			}
		}
	}
	if said != 1 {
		t.Errorf("that is said %d times: %q", said, r.log)
	}
}

// TestNoteOnFullDisk: a note that does not fit any more leaves the one before it, on a file system that takes a part.
func TestNoteOnFullDisk(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		c, err := claimNumber(disk.Dir, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer c.release()
		note := func(n int) error {
			p := past{Subsystem: "a", Disks: map[int]string{}}
			for i := range n {
				p.Disks[i] = "1 UUID ee05de66-bbe1-5c40-bdf2-b018cacbf855"
			}
			return c.remember(p)
		}
		if err := note(1000); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(c.file.Name())
		if err != nil {
			t.Fatal(err)
		}
		disk.Space(200 << 10)
		if err := note(4000); err == nil {
			t.Fatal("more was noted than there is room for")
		}
		if now, err := os.ReadFile(c.file.Name()); err != nil || !bytes.Equal(now, before) {
			t.Errorf("the note has %d bytes, %v; it had %d", len(now), err, len(before))
		}
	})
}
