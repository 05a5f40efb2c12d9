package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	if NewProgress(&b, "write", 1<<30) != nil {
		t.Error("a bar without a terminal")
	}
	p := startProgress(&b, "write", 100)
	p.Add(60)
	p.End()
	if !strings.Contains(b.String(), "write") {
		t.Errorf("the bar is %q", b.String())
	}
	var none *Progress
	none.Add(1)
	none.End()
}

// TestTerminal checks that progress is shown on a terminal only, and a bar only for long transfers.
func TestTerminal(t *testing.T) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	f := os.NewFile(uintptr(fd), "ptmx")
	defer f.Close()
	line := Line(f, "write")
	if line == nil || NewProgress(f, "write", smallTransfer) == nil || NewProgress(f, "write", smallTransfer-1) != nil {
		t.Fatal("a terminal is not seen as one, or has a bar for little")
	}
	line(0.5)
	line(1)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Line(null, "write") != nil {
		t.Error("a line without a terminal")
	}
}
