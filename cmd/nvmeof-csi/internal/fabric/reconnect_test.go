package fabric

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// lose removes a controller, as the kernel does when it has given one up.
func (x *tree) lose(name string) {
	x.t.Helper()
	if err := os.RemoveAll(filepath.Join(x.Sys, "class", "nvme", name)); err != nil {
		x.t.Fatal(err)
	}
}

// tidied returns what the kernel is asked for by a call of Tidy.
func (x *tree) tidied() []string {
	x.asked = nil
	if err := x.Tidy(x.t.Context()); (err != nil) != (x.fail != nil && len(x.asked) > 0) {
		x.t.Errorf("asked %q, which fails with %v: %v", x.asked, x.fail, err)
	}
	return x.asked
}

// twoPaths returns a machine with a volume by two paths.
func twoPaths(t *testing.T, d Disk) *tree {
	t.Helper()
	x := newTree(t)
	x.namespace("nvme0n1", first, "8")
	if _, err := x.Attach(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	x.controller("nvme0", "traddr=192.0.2.1,trsvcid=4420")
	x.controller("nvme1", "traddr=2001:db8::1,trsvcid=4421")
	return x
}

// TestPathGivenUp checks that a path that the kernel has given up is connected again while a volume is attached, also
// by a driver that was started since.
func TestPathGivenUp(t *testing.T) {
	for _, anew := range []bool{false, true} {
		d := disk(first)
		d.Key, d.ControllerKey = "", ""
		x := twoPaths(t, d)
		if anew {
			x = x.started()
			x.Connect = func(options string) error {
				x.asked = append(x.asked, options)
				return nil
			}
		}
		if asked := x.tidied(); len(asked) > 0 {
			t.Errorf("with both paths asked %q", asked)
		}
		x.put("sys/class/nvme/nvme1/state", "connecting")
		if asked := x.tidied(); len(asked) > 0 {
			t.Errorf("while the kernel tries itself asked %q", asked)
		}
		x.lose("nvme1")
		if asked := x.tidied(); len(asked) != 1 || !strings.Contains(asked[0], ",traddr=2001:db8::1,trsvcid=4421,") || strings.Contains(asked[0], "secret") {
			t.Errorf("with a path given up asked %q", asked)
		}
		x.controller("nvme2", "traddr=2001:db8::1,trsvcid=4421")
		x.lose("nvme0")
		if asked := x.tidied(); len(asked) != 1 || !strings.Contains(asked[0], ",traddr=192.0.2.1,trsvcid=4420,") {
			t.Errorf("with the other path given up asked %q", asked)
		}
		x.put("sys/class/nvme/nvme2/state", "deleting (no IO)")
		if asked := x.tidied(); len(asked) > 0 {
			t.Errorf("while somebody disconnects from the subsystem asked %q", asked)
		}
		x.put("sys/class/nvme/nvme2/state", "live")
		if err := x.Detach(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if asked := x.tidied(); len(asked) > 0 {
			t.Errorf("without a volume asked %q", asked)
		}
		if left, err := os.ReadDir(x.Dir); err != nil || len(left) > 1 { // of the subsystem, whose connection is there
			t.Errorf("there are yet notes: %v, %v", left, err)
		}
	}
}

// TestPathMissing checks that an address at which the target does not answer is tried again, less and less often.
func TestPathMissing(t *testing.T) {
	x := twoPaths(t, disk(first))
	x.lose("nvme1")
	x.fail = unix.ECONNREFUSED
	var when []int
	for i := range 32 {
		if len(x.tidied()) > 0 {
			when = append(when, i)
		}
	}
	if want := []int{0, 2, 6, 14, 22, 30}; !slices.Equal(when, want) {
		t.Errorf("tried at calls %v, want %v", when, want)
	}
	x.fail = nil
	for len(x.tidied()) == 0 {
		if when = append(when, 0); len(when) > 64 {
			t.Fatal("it is not tried any more")
		}
	}
	if len(x.tidied()) == 0 {
		t.Error("what succeeded is tried as rarely as what failed")
	}
}

// TestKeysOfPath checks that a path is connected with the keys of those that are left, whichever the target takes,
// since a driver that was started anew knows no others.
func TestKeysOfPath(t *testing.T) {
	x := twoPaths(t, disk(first))
	x.Connect = func(options string) error {
		x.asked = append(x.asked, options)
		if strings.HasSuffix(options, ",dhchap_secret=DHHC-1:00:c:") {
			return nil
		}
		return unix.EIO
	}
	for name, secrets := range map[string][2]string{"nvme0": {"DHHC-1:00:a:", "DHHC-1:00:b:"}, "nvme2": {"DHHC-1:00:a:", "DHHC-1:00:b:"}, "nvme3": {"DHHC-1:00:c:", "none"}} {
		x.controller(name, "traddr=192.0.2.1,trsvcid=4420")
		x.put("sys/class/nvme/"+name+"/dhchap_secret", secrets[0])
		x.put("sys/class/nvme/"+name+"/dhchap_ctrl_secret", secrets[1])
	}
	x.lose("nvme1")
	x = x.started()
	if asked := x.tidied(); len(asked) != 2 || !strings.HasSuffix(asked[0], ",dhchap_secret=DHHC-1:00:a:,dhchap_ctrl_secret=DHHC-1:00:b:") {
		t.Errorf("asked %q", asked)
	}
}

// TestAddressesOfVolumes checks that the paths are those of all volumes that are attached, and that a volume of an
// earlier driver, of which no address is known, is no error.
func TestAddressesOfVolumes(t *testing.T) {
	x := twoPaths(t, disk(first))
	other := disk(second)
	other.Addresses = []string{"192.0.2.1:4420", "192.0.2.3:4420"}
	x.namespace("nvme0n2", second, "8")
	if _, err := x.Attach(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	x.lose("nvme1")
	if asked := x.tidied(); len(asked) != 2 {
		t.Errorf("asked %q", asked)
	}
	if err := x.Detach(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if asked := x.tidied(); len(asked) != 1 || !strings.Contains(asked[0], "192.0.2.3") {
		t.Errorf("without the first volume asked %q", asked)
	}
	if _, err := x.note(uuid.New(), volumeNotes, nqn); err != nil {
		t.Fatal(err)
	}
	if asked := x.tidied(); len(asked) != 1 {
		t.Errorf("with a volume without addresses asked %q", asked)
	}
}
