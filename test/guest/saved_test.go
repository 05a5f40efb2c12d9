package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMachine: guests that differ only in their own properties start from the same state; guests that differ in what
// the kernel sees at boot do not.
func TestMachine(t *testing.T) {
	same := Config{Share: "/a", Link: "/b", Listen: true, MAC: "52:54:00:00:00:01", CPUs: 2, Memory: 3072}
	if got, want := same.machine(), (Config{Share: "/c"}).machine(); !slices.Equal(got, want) {
		t.Errorf("machine() = %q, want %q", got, want)
	}
	for _, other := range []Config{{CPUs: 4}, {Memory: 2048}, {Systemd: true}, {Drives: true}, {InstructionClock: true}} {
		if slices.Equal(other.machine(), (Config{}).machine()) {
			t.Errorf("%+v has the machine of a zero Config", other)
		}
	}
}

// TestDropStates: only the states used last are kept, of all images together; states that are being made are kept too.
func TestDropStates(t *testing.T) {
	cache := t.TempDir()
	make := func(name string, age time.Duration) {
		t.Helper()
		dir := filepath.Join(cache, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "state"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		used := time.Now().Add(-age)
		if err := os.Chtimes(dir, used, used); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keptStates + 2 {
		make(fmt.Sprintf("image%d.saved/%d", i%2, i), time.Duration(i)*time.Hour)
	}
	make("image0.saved/new.partial", 100*time.Hour)
	if err := dropStates(cache); err != nil {
		t.Fatal(err)
	}
	for i := range keptStates + 2 {
		_, err := os.Stat(filepath.Join(cache, fmt.Sprintf("image%d.saved/%d", i%2, i)))
		if stays := err == nil; stays != (i < keptStates) {
			t.Errorf("the state used %d hours ago stays: %v", i, stays)
		}
	}
	if _, err := os.Stat(filepath.Join(cache, "image0.saved/new.partial")); err != nil {
		t.Error(err)
	}
}

// TestSavedState: two guests of one state, with an Ethernet between them, have their own files, addresses, random
// numbers and time.
func TestSavedState(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	seen := map[string]bool{}
	for i, mac := range []string{"52:54:00:00:00:01", "52:54:00:00:00:02"} {
		g := bootFor(t, Config{CPUs: 4, Link: link, Listen: i == 0, MAC: mac})
		if !g.restored {
			t.Error("the guest booted")
		}
		out, err := g.Run(t.Context(), time.Minute, fmt.Sprintf("number=%d", i+1)+`
			set -e
			[[ ! -e /var/mine ]]; echo >/var/mine; sync
			[[ ! -e /mnt/host/mine ]]; echo >/mnt/host/mine
			modprobe -a virtio_net rdma_rxe
			until [[ -e /sys/class/net/eth0 ]]; do sleep 0.1; done
			ip addr add 10.9.0.$number/24 dev eth0
			ip link set eth0 up
			ping -q -c 1 -w 20 10.9.0.1 >/dev/null # the first one
			date +%s; cat /sys/class/net/eth0/address
			cat /proc/sys/kernel/random/uuid; mktemp -u; echo "random $RANDOM$RANDOM"; od -An -N8 -tx1 /dev/urandom`)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var now int64
		if _, err := fmt.Sscan(lines[0], &now); err != nil {
			t.Fatal(err)
		}
		if off := time.Since(time.Unix(now, 0)).Abs(); off > 10*time.Second {
			t.Errorf("the guest's clock is %v off", off)
		}
		if lines[1] != mac {
			t.Errorf("the interface has the address %s, want %s", lines[1], mac)
		}
		for _, line := range lines[1:] {
			if seen[line] {
				t.Errorf("both guests drew %q", line)
			}
			seen[line] = true
		}
	}
}

// TestDamagedState: a guest does not start from a damaged state, which is removed.
func TestDamagedState(t *testing.T) {
	if !*boots {
		t.Skip("runs QEMU: go test ./test/guest -guest")
	}
	built, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := built.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	m := Image{filepath.Join(t.TempDir(), "image")} // which has its own states
	if err := os.Symlink(built.dir, m.dir); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Share: t.TempDir()}
	s, err := findSaved(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cfg.prepare(), os.MkdirAll(s.dir, 0o755), os.WriteFile(s.file("state"), []byte("not a state"), 0o644),
		command(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", m.disk(), s.file("disk.qcow2"))); err != nil {
		t.Fatal(err)
	}
	g, err := restore(t.Context(), m, cfg)
	if err == nil {
		g.Close()
		t.Error("a guest starts from a damaged state")
	}
	t.Log(err)
	if s.there() {
		t.Error("the state stays")
	}
}
