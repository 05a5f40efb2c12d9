package control

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDescriptors: namespaces do not take the last descriptors. The test runs in a process with its own limit.
func TestDescriptors(t *testing.T) {
	if os.Getenv("NVMEOF_FEW_DESCRIPTORS") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDescriptors$")
		cmd.Env = append(os.Environ(), "NVMEOF_FEW_DESCRIPTORS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const most = 160
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	if err := mayOpen(); err != nil {
		t.Fatalf("with a few in use: %v", err)
	}
	for n := 0; ; n++ {
		err := mayOpen()
		f, openErr := os.Open(os.DevNull)
		if openErr != nil {
			t.Fatalf("after %d there are none left: %v", n, openErr)
		}
		defer f.Close()
		if errors.Is(err, unix.EMFILE) {
			if f.Fd() > most-8 || f.Fd() < most/2 {
				t.Errorf("it is refused at descriptor %d of %d: %v", f.Fd(), most, err)
			}
			return
		}
	}
}
