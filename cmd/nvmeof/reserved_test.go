package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReservationsAway: a target that starts while the file with its reservations is not there
// keeps hosts from the namespace until it is; and says when no such file is to be used any more.
func TestReservationsAway(t *testing.T) {
	beside(t)
	setenv(t, "XDG_STATE_HOME", t.TempDir())
	c := startConfigured(t, strings.Replace(testConfig, "size: 8MiB}\n", "size: 8MiB}\n        reservations: DIR/resv\n", 1))
	c.out.await(t, "nvme connect")
	at2 := func(line string) []string {
		return append(words(line), "-t", "rdma", "-a", c.addr, "-n", testNQN, "--namespace-id", "2")
	}
	command(t, at2("resv-register --nrkey 0xa1 --cptpl 3")...).want(t, 0)
	command(t, at2("resv-acquire --crkey 0xa1 --rtype 3")...).want(t, 0)
	c.end(t)
	file := filepath.Join(c.dir, "resv")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	c.out.await(t, "nvme connect")
	c.errOut.await(t, "is missing (it was there before)")
	command(t, "ls").want(t, 0, "hosts would find their reservations gone")
	command(t, at2("resv-report -e")...).want(t, exitFailed)
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	c.errOut.await(t, "namespace is there")
	command(t, at2("resv-report -e")...).want(t, 0, "rkey       : a1\n")
	set := []string{"ns", "set", "2", "-n", testNQN, "--reservations", "default"}
	command(t, append(set, "--dry-run")...).want(t, 0, "warning: ", "reservations are no longer saved")
	command(t, set...).want(t, 0, "warning: ", "reservations are no longer saved")
}
