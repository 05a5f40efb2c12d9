package librados

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExplain(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.ETIMEDOUT: "monitors", unix.EACCES: "capabilities", Blocklisted: "blocklist ls", unix.ENOENT: "no such file",
	} {
		if err := Explain("open", errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("errno %d: %v", errno, err)
		}
	}
	if err := Explain("open", 0); err != nil {
		t.Errorf("no error: %v", err)
	}
}
