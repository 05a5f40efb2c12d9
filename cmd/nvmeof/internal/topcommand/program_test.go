package topcommand

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTerminalGoes checks that the screen ends with its terminal, even if that sends no SIGHUP because another process
// controls it.
func TestTerminalGoes(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudoterminals: %v", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	s := &screen{target: filepath.Join(t.TempDir(), "s")}
	ended := make(chan error, 1)
	go func() { ended <- show(t.Context(), s, time.Second, terminal, terminal, []string{"TERM=xterm"}) }()
	if _, err := master.Read(make([]byte, 1)); err != nil { // it draws
		t.Fatal(err)
	}
	master.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on without a terminal")
	}
}
