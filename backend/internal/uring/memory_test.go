package uring

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const testPart = 64 << 10

// mapped allocates memory outside the Go heap and announces it to the ring.
func mapped(t *testing.T, r *Ring, parts int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, parts*testPart, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	r.UseMemory(mem, testPart)
	return mem
}

// TestUseMemory: the data is correct wherever the buffer is, and a buffer within one part uses the kernel's mapping.
func TestUseMemory(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, _ := newRing(t, 8, locked)
		mem := mapped(t, r, 4)
		if r.memory.size == 0 {
			t.Skip("the kernel registers no memory part by part (before 5.19)")
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err == nil && limit.Cur < 1<<20 && os.Geteuid() != 0 {
			t.Skipf("%d bytes of memory may be locked (ulimit -l), which TestMemoryRefused is about", limit.Cur)
		}
		outside := make([]byte, 4096)
		for _, c := range []struct {
			name  string
			b     []byte
			fixed bool
		}{
			{"in a part", mem[4096:8192], true},
			{"a whole part", mem[testPart : 2*testPart], true},
			{"the end", mem[4*testPart-512:], true},
			{"across parts", mem[testPart-512 : testPart+512], false},
			{"elsewhere", outside, false},
			{"again", mem[4096:8192], true},
		} {
			if _, ok := r.fixed(c.b); ok != c.fixed {
				t.Errorf("%s: registered %v, want %v", c.name, ok, c.fixed)
			}
			for i := range c.b {
				c.b[i] = byte(i*7) + 1
			}
			want := bytes.Clone(c.b)
			r.Write(c.b, 0, 0, 1)
			if got := finish(t, r, 1)[1]; int(got) != len(c.b) {
				t.Fatalf("%s: wrote %d bytes of %d", c.name, got, len(c.b))
			}
			clear(c.b)
			r.Read(c.b, 0, 2)
			if got := finish(t, r, 1)[2]; int(got) != len(c.b) || !bytes.Equal(c.b, want) {
				t.Errorf("%s: read %d bytes of %d, equal %v", c.name, got, len(c.b), bytes.Equal(c.b, want))
			}
		}
		if known := r.memory.known; !known[0] || !known[1] || known[2] || !known[3] {
			t.Errorf("parts registered: %v, want those used alone", known)
		}
	})
}

// TestMemoryRefused: memory that the kernel does not register is used nevertheless.
func TestMemoryRefused(t *testing.T) {
	r, _ := newRing(t, 8, false)
	mem := mapped(t, r, 2)
	if r.memory.size == 0 {
		t.Skip("the kernel registers no memory part by part (before 5.19)")
	}
	if err := unix.Mprotect(mem, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.fixed(mem[:4096]); ok {
		t.Fatal("memory without access was registered")
	}
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	r.Write(mem[:4096], 0, 0, 1)
	if got := finish(t, r, 1)[1]; got != 4096 {
		t.Errorf("wrote %d bytes", got)
	}
}
