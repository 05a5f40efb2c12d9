package process

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseCores(t *testing.T) {
	for _, c := range []struct {
		text string
		want Cores
	}{
		{"0", Cores{0}}, {"2, 3", Cores{2, 3}}, {"", nil}, {"0-3", nil}, {"-1", nil},
	} {
		got, err := ParseCores(c.text)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	if err := (Cores{1000}).Check(); err == nil {
		t.Error("processor 1000 was found")
	}
}

func TestStart(t *testing.T) {
	var out strings.Builder
	cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	cmd.Stdout = &out
	if err := (Cores{0}).Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(out.String()); len(f) != 2 || f[1] != "0" {
		t.Errorf("a command on processor 0 says %q", out.String())
	}
}

func TestParse(t *testing.T) {
	const name = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 12 30 0 0 20 0 1 0 1 2 3"
	if got, err := parseStat([]byte(name)); err != nil || got != 420*time.Millisecond {
		t.Errorf("stat: %v, %v; want 420ms", got, err)
	}
	if got, err := parseMachine([]byte("cpu  1 2 3 100 100 7 8 4 0 0\ncpu0 1\n"), user, nice, system, steal); err != nil || got != 100*time.Millisecond {
		t.Errorf("machine: %v, %v; want 100ms", got, err)
	}
	for _, text := range []string{"", "7 (a) S 1", "cpu 1 2", "cpu  a b c d e f g h"} {
		_, err := parseStat([]byte(text))
		_, err2 := parseMachine([]byte(text), steal)
		if err == nil || err2 == nil {
			t.Errorf("%q was understood: %v, %v", text, err, err2)
		}
	}
}

func TestOwnUsage(t *testing.T) {
	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	before, err := CPUTime(os.Getpid())
	for start := time.Now(); time.Since(start) < 60*time.Millisecond; {
	}
	after, err2 := CPUTime(os.Getpid())
	if err != nil || err2 != nil || after <= before {
		t.Errorf("processor time from %v to %v, %v, %v", before, after, err, err2)
	}
	if n, err := Resident(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("resident: %d bytes, %v", n, err)
	}
	if others, err := w.Others(0); err != nil || others < 0 {
		t.Errorf("others: %v, %v", others, err)
	}
}
