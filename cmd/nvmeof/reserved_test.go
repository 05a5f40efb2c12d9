package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReservationsAway checks that a target that starts without the file of its reservations keeps hosts from the
// namespace until the file exists, and reports when such a file is no longer used.
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
	command(t, "ls").want(t, 0, "the reservations of hosts would be lost")
	command(t, at2("resv-report -e")...).want(t, exitFailed)
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	c.errOut.await(t, "namespace is served, since its store is available")
	command(t, at2("resv-report -e")...).want(t, 0, "rkey       : a1\n")
	set := []string{"ns", "set", "2", "-n", testNQN, "--reservations", "default"}
	command(t, append(set, "--dry-run")...).want(t, 0, "warning: ", "reservations are no longer saved")
	command(t, set...).want(t, 0, "warning: ", "reservations are no longer saved")
}

// TestReservationClear checks that an administrator can clear a reservation of a host that is gone; for a connected
// host this needs force.
func TestReservationClear(t *testing.T) {
	inOwnRunDir(t)
	c := startConfigured(t, strings.Replace(testConfig, "size: 8MiB}\n", "size: 8MiB}\n        reservations: DIR/resv\n", 1))
	c.out.await(t, "nvme connect")
	const gone, id = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-555555555555"
	at2 := func(line string, more ...string) []string {
		return append(append(words(line), "-t", "rdma", "-a", c.addr, "-n", testNQN, "--namespace-id", "2"), more...)
	}
	reserve := func() {
		command(t, at2("resv-register --nrkey 0xa1 --cptpl 3", "--hostnqn", gone)...).want(t, 0)
		command(t, at2("resv-acquire --crkey 0xa1 --rtype 2", "--hostnqn", gone)...).want(t, 0)
		command(t, at2("flush")...).want(t, exitFailed)
	}
	run := func(line string, code int, texts ...string) outcome {
		t.Helper()
		return command(t, words(strings.ReplaceAll(line, "NQN", testNQN))...).want(t, code, texts...)
	}
	run("reservation list", 0, "SUBSYSTEM", "CONNECTED")
	reserve()
	run("reservation list", 0, testNQN+"  2     exclusive-access  "+gone+"  "+id+"  0xa1  yes    no")
	run("reservation list -n other -o json", 0, "[]")
	run("reservation clear 2 -n NQN", exitUsage, "--host HOST or --all is missing")
	run("reservation clear 2 -n NQN --all --host x", exitUsage, "--host HOST or --all is missing")
	run("reservation clear 2 -n NQN --host nobody", exitFailed, "registrant nobody does not exist; there is "+gone)
	run("reservation clear 9 -n NQN --all", exitFailed, "namespace 9 does not exist; there is 1")
	run("reservation clear x -n NQN --all", exitUsage, "is not a number")
	run("reservation clear 2 -n NQN --host "+gone, 0, "clear registration of "+gone+" at namespace 2 of "+testNQN+"\n")
	c.errOut.await(t, "registration of a host ended by an administrator")
	command(t, at2("flush")...).want(t, 0)
	reserve()
	run("reservation clear 2 -n NQN --host "+id, 0)
	reserve()
	run("reservation clear 2 -n NQN --all", 0, "clear all registrations and the reservation at namespace 2 of "+testNQN+"\n")
	command(t, at2("flush")...).want(t, 0)

	c.end(t)
	c.start(t)
	c.out.await(t, "nvme connect")
	if text := run("reservation list", 0).out; strings.Contains(text, gone) {
		t.Errorf("after a restart: %s", text)
	}
	reserve()
	out, errOut := newOutput(), newOutput()
	stop, ended := begin(t, out, errOut, "connect", "-t", "rdma", "-a", c.addr, "-n", testNQN, "--hostnqn", gone)
	defer func() {
		stop()
		<-ended
	}()
	out.await(t, "connecting to device")
	for _, line := range []string{"reservation clear 2 -n NQN --all", "reservation clear 2 -n NQN --host " + gone} {
		run(line, exitFailed, "hosts that are connected and may rely on the reservation: "+gone, "--force")
	}
	run("reservation list -o yaml", 0, "connected: true")
	run("controller list --interval 1ms -o json", 0, `"host-id": "`+id+`"`) // as in the list of reservations
	run("reservation clear 2 -n NQN --force --host "+gone, 0)
}
