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

// TestExplainWhere: errors name the configuration file, the client and the pool.
func TestExplainWhere(t *testing.T) {
	for _, test := range []struct {
		err   error
		errno unix.Errno
		want  string
	}{
		{explainConnect("", "", unix.ENOENT), unix.ENOENT, "no keyring of client.admin"},
		{explainConnect("/x/ceph.conf", "nvmeof", unix.ENOENT), unix.ENOENT, "/x/ceph.conf is missing, or the keyring of client.nvmeof"},
		{explainConnect("/x/ceph.conf", "nvmeof", unix.EACCES), unix.EACCES, "as client.nvmeof: permission denied"},
		{explainPool("disk", unix.ENOENT), unix.ENOENT, "there is no such pool"},
		{explainPool("disk", unix.EPERM), unix.EPERM, "capabilities"},
	} {
		if !errors.Is(test.err, test.errno) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%v: want %q", test.err, test.want)
		}
	}
}
