package badinput

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// takeDescriptors uses up the process's file descriptors until the returned function is called.
func takeDescriptors(t *testing.T) (giveBack func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = min(low.Cur, 512)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
}

// TestDescriptorsExhausted is row 116: with no file descriptor left, connections are still accepted and served, since
// they need none. An operation that does need one fails with an error that says so, and succeeds when there are
// descriptors again. (A step of the clock cannot be tested here. It ends no association: a shard's clock is the time
// since its device was opened, which Go measures monotonically.)
func TestDescriptorsExhausted(t *testing.T) {
	test(t, []attack{{row: "116 no file descriptor", run: func(l *lab) {
		path := filepath.Join(l.t.TempDir(), "namespace.img")
		giveBack := takeDescriptors(l.t)
		_, noFile := file.Open(path, file.Config{Size: 1 << 20})
		_, noDevice := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.84.0.10")})
		c := l.gremlin.login()
		l.host.work()
		l.host.again()
		c.alive()
		giveBack()
		for what, err := range map[string]error{"a file": noFile, "a device": noDevice} {
			if !errors.Is(err, unix.EMFILE) {
				l.t.Errorf("opening %s without descriptors: %v, want %v", what, err, unix.EMFILE)
			}
		}
		s, err := file.Open(path, file.Config{Size: 1 << 20})
		l.must(err)
		l.must(s.Close())
	}}})
}
