package record

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

const size = 512

// A rig is a table and the disk that it describes.
type rig struct {
	t     *testing.T
	table *Table
	path  string
	disk  [4][size]byte
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "table")}
	r.open()
	return r
}

func (r *rig) open() {
	table, err := Open(r.path, 7, len(r.disk))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { table.Close() })
	r.table = table
}

// begin begins a write, which is not executed.
func (r *rig) begin(block int) (number uint64, content []byte) {
	content = make([]byte, size)
	return r.table.Begin(content, block), content
}

// write executes and acknowledges a write.
func (r *rig) write(block int) (number uint64) {
	number, content := r.begin(block)
	copy(r.disk[block][:], content)
	r.table.Acknowledged(block, number, false)
	return number
}

// read reads a block. meanwhile is called between the start and the end of the read.
func (r *rig) read(block int, meanwhile func()) error {
	floor := r.table.Floor(block)
	if meanwhile != nil {
		meanwhile()
	}
	return r.table.Check(r.disk[block][:], block, floor)
}

// TestHistories: what a read may return, and what it may not.
func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig) error
		want string // text of the violation; empty: none
	}{
		{"never written", func(r *rig) error { return r.read(0, nil) }, ""},
		{"acknowledged", func(r *rig) error { r.write(1); r.write(1); return r.read(1, nil) }, ""},
		{"acknowledged and lost", func(r *rig) error {
			r.write(1)
			old := r.disk[1]
			r.write(1)
			r.disk[1] = old
			return r.read(1, nil)
		}, "has write 1, but write 2 had been acknowledged, or seen, before the read began: it is lost"},
		{"flushed and lost", func(r *rig) error {
			r.table.Flushed(1, r.write(1))
			clear(r.disk[1][:])
			return r.read(1, nil)
		}, "has write 0, but write 1 had been acknowledged and was durable"},
		{"with FUA and lost", func(r *rig) error {
			n, _ := r.begin(1)
			r.table.Acknowledged(1, n, true)
			return r.read(1, nil)
		}, "was durable"},
		{"concurrent, before it", func(r *rig) error {
			r.write(1)
			return r.read(1, func() { r.begin(1) })
		}, ""},
		{"concurrent, after it", func(r *rig) error {
			r.write(1)
			return r.read(1, func() {
				_, content := r.begin(1)
				copy(r.disk[1][:], content)
			})
		}, ""},
		{"acknowledged meanwhile, and not seen", func(r *rig) error {
			return r.read(1, func() { r.write(1); clear(r.disk[1][:]) })
		}, ""},
		{"seen, and then not any more", func(r *rig) error {
			_, content := r.begin(1)
			copy(r.disk[1][:], content)
			if err := r.read(1, nil); err != nil {
				return err
			}
			clear(r.disk[1][:])
			return r.read(1, nil)
		}, "has write 0, but write 1"},
		{"failed, and executed later", func(r *rig) error {
			_, late := r.begin(1)
			r.write(1)
			copy(r.disk[1][:], late)
			return r.read(1, nil)
		}, "has write 1, but write 2"},
		{"failed, one way or the other", func(r *rig) error {
			r.begin(1)
			if err := r.read(1, nil); err != nil {
				return err
			}
			if !r.table.InDoubt(1) {
				r.t.Error("a write that failed is not in doubt")
			}
			_, content := r.begin(1)
			copy(r.disk[1][:], content)
			return r.read(1, nil)
		}, ""},
		{"from the future", func(r *rig) error {
			Fill(r.disk[1][:], Block{7, 1}, 1)
			return r.read(1, nil)
		}, "has write 1, and 0 is the last"},
		{"of another block", func(r *rig) error {
			r.write(2)
			r.disk[1] = r.disk[2]
			return r.read(1, nil)
		}, "has write 1 of block 2 of namespace 7"},
		{"of another namespace", func(r *rig) error {
			Fill(r.disk[1][:], Block{8, 1}, 1)
			return r.read(1, nil)
		}, "of namespace 8"},
		{"torn", func(r *rig) error {
			r.write(1)
			old := r.disk[1]
			r.write(1)
			copy(r.disk[1][256:], old[256:])
			return r.read(1, nil)
		}, "begins as write 2 and is not that from byte 256 to byte 511"},
		{"one bit", func(r *rig) error {
			r.write(1)
			r.disk[1][300] ^= 4
			return r.read(1, nil)
		}, "from byte 300 to byte 300"},
		{"garbage", func(r *rig) error { r.disk[1][0] = 1; return r.read(1, nil) }, "which nobody wrote"},
		{"known to the next process", func(r *rig) error {
			r.write(1)
			r.table.Close()
			r.open()
			clear(r.disk[1][:])
			return r.read(1, nil)
		}, "has write 0, but write 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.do(newRig(t))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("a violation, %v", err)
			case c.want != "" && (err == nil || !IsViolation(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	var a, b [4096]byte
	for _, n := range []int{64, 512, 520, 4096} {
		Fill(a[:n], Block{1, 2}, 3)
		Fill(b[:n], Block{1, 2}, 4)
		if bytes.Equal(a[28:60], b[28:60]) {
			t.Errorf("%d bytes: two writes are alike", n)
		}
		if got, err := Parse(a[:n], Block{1, 2}); got != 3 || err != nil {
			t.Errorf("%d bytes: write %d, %v", n, got, err)
		}
	}
}

func TestOpenOfAnotherSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	a, err := Open(path, 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := Open(path, 1, 9); err == nil || !strings.Contains(err.Error(), "8 blocks, and not with 9") {
		t.Errorf("%v", err)
	}
}
