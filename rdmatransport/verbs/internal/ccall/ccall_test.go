//go:build linux && amd64

package ccall

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// function puts machine code, which stands in for C compiled for the System V ABI, where
// it can be called.
func function(t *testing.T, code ...byte) uintptr {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	copy(mem, code)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		t.Fatal(err)
	}
	return uintptr(unsafe.Pointer(&mem[0]))
}

func opened(t *testing.T) *Stack {
	t.Helper()
	s := &Stack{}
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestArguments(t *testing.T) {
	weigh := function(t, // a + 2b + 4c + 8d
		0x48, 0x8d, 0x04, 0x77, // lea (%rdi,%rsi,2), %rax
		0x48, 0x8d, 0x04, 0x90, // lea (%rax,%rdx,4), %rax
		0x48, 0x8d, 0x04, 0xc8, // lea (%rax,%rcx,8), %rax
		0xc3)
	s := opened(t)
	if got, want := s.Call(weigh, 1, 1, 1, 1), uintptr(15); got != want {
		t.Errorf("four arguments of 1: %d, want %d", got, want)
	}
	if got, want := s.Call(weigh, 1, 2, 3, 4), uintptr(1+4+12+32); got != want {
		t.Errorf("arguments 1 to 4: %d, want %d", got, want)
	}
}

func TestStack(t *testing.T) {
	pointer := function(t, 0x48, 0x89, 0xe0, 0xc3) // mov %rsp, %rax; ret
	s := opened(t)
	low := uintptr(unsafe.Pointer(&s.mem[0]))
	if got := s.Call(pointer, 0, 0, 0, 0); got <= low || got >= s.top || (got+8)%16 != 0 {
		t.Errorf("the stack pointer is %#x in a function: want one in %#x .. %#x that was a multiple of 16 before the call", got, low, s.top)
	}
	s.Close()
	if s.Ready() {
		t.Error("ready after Close")
	}
}

// TestRegisters: what C may change and Go relies on, above all X15, is as it was.
func TestRegisters(t *testing.T) {
	spoil := function(t,
		0x66, 0x45, 0x0f, 0x76, 0xff, // pcmpeqd %xmm15, %xmm15
		0x48, 0x31, 0xc9, 0x48, 0x31, 0xd2, 0x48, 0x31, 0xf6, 0x48, 0x31, 0xff, // xor of rcx, rdx, rsi, rdi
		0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xc9, 0x4d, 0x31, 0xd2, 0x4d, 0x31, 0xdb, // and of r8 to r11
		0xc3)
	s := opened(t)
	for range 100 {
		s.Call(spoil, 0, 0, 0, 0)
		if zero := new([64]byte); *zero != [64]byte{} {
			t.Fatal("fresh memory is not zero")
		}
	}
}

// TestCollectsGarbage: the scheduler's signals, which come while a function runs, and
// garbage collections in between do no harm.
func TestCollectsGarbage(t *testing.T) {
	count := function(t, // from the argument to 0
		0x48, 0x89, 0xf8, // mov %rdi, %rax
		0x48, 0xff, 0xc8, // dec %rax
		0x75, 0xfb, // jnz to dec
		0xc3)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			runtime.GC()
		}
	}()
	s := opened(t)
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		if got := s.Call(count, 5_000_000, 0, 0, 0); got != 0 {
			t.Fatalf("counted to %d", got)
		}
		deep(50)
	}
	stop.Store(true)
	<-done
}

// deep has the goroutine's stack grow and shrink.
func deep(n int) (sum byte) {
	var room [1024]byte
	if n > 0 {
		room[n] = deep(n - 1)
	}
	return room[n] + 1
}

// TestMemoryStays: what a call is given the address of is where the goroutine's stack does not take it elsewhere, which
// any function on the way to the call may do.
func TestMemoryStays(t *testing.T) {
	identity := function(t, 0x48, 0x89, 0xf8, 0xc3) // mov %rdi, %rax; ret
	s := opened(t)
	done := make(chan struct{})
	go func() { // ends soon: its stack is small
		defer close(done)
		var local [64]byte
		given := s.Call(identity, uintptr(unsafe.Pointer(&local)), 0, 0, 0)
		deep(500)
		if now := uintptr(unsafe.Pointer(&local)); given != now {
			t.Errorf("C had the address %#x of what is at %#x now", given, now)
		}
	}()
	<-done
}

func TestNoAllocation(t *testing.T) {
	nothing := function(t, 0xc3)
	s := opened(t)
	if n := testing.AllocsPerRun(100, func() { s.Call(nothing, 1, 2, 3, 4) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCall(b *testing.B) {
	var s Stack
	if err := s.Open(); err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0] = 0xc3
	unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC)
	for b.Loop() {
		s.Call(uintptr(unsafe.Pointer(&mem[0])), 1, 2, 3, 4)
	}
}
