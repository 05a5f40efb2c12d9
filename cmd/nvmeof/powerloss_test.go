package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const bootID = "/proc/sys/kernel/random/boot_id"

// startInBoot runs the target of a document in a mount namespace with another boot ID of the kernel.
func startInBoot(t *testing.T, c *configured, boot string) *separate {
	t.Helper()
	file := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(file, []byte(boot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(context.Background(), t, "target", "--config", c.file)
	cmd.Args = append([]string{"sh", "-c", `mount --bind "$0" ` + bootID + ` && exec "$@"`, file, cmd.Path}, cmd.Args[1:]...)
	var err error
	if cmd.Path, err = exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	inNamespace(cmd)
	s := startSeparately(t, cmd)
	s.out.await(t, "nvme connect -t rdma -a "+c.addr)
	return s
}

// inNamespace runs a command as root of user and mount namespaces of its own.
func inNamespace(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
}

// TestPowerLoss checks that the next flush of a client fails, and attach reports why, if the target's machine was
// restarted without ending the target, so that it may have lost writes.
func TestPowerLoss(t *testing.T) { restarted(t, unix.SIGKILL, "b", true) }

// TestNoPowerLoss checks that the flush succeeds if only the target was killed.
func TestNoPowerLoss(t *testing.T) { restarted(t, unix.SIGKILL, "a", false) }

// TestReboot checks that the flush succeeds if the machine was restarted after the target had ended properly.
func TestReboot(t *testing.T) { restarted(t, unix.SIGTERM, "b", false) }

// restarted lets a client write, ends the target, starts it again in a given boot of its machine, and lets the client
// flush.
func restarted(t *testing.T, end unix.Signal, boot string, lost bool) {
	beside(t)
	probe := exec.Command("mount", "--bind", "/dev/null", bootID)
	if inNamespace(probe); probe.Run() != nil {
		t.Skip("this user can have no mount namespace, in which the boot would be another one")
	}
	c := configure(t, strings.Replace(durable, "allow-any-host: true", "allow-any-host: true\n    state: DIR/state", 1))
	target := startInBoot(t, c, "a")
	a := startAttach(t, c.testTarget, quick...)
	client := dialNBD(t, a.socket, "1")
	block := make([]byte, 4096)
	if err := client.do(nbdWrite, 0, block); err != nil {
		t.Fatal(err)
	}
	target.signal(t, end)
	target.ended <- <-target.ended
	startInBoot(t, c, boot)
	if err := client.do(nbdWrite, 4096, block); err != nil {
		t.Errorf("a write to the target that is back: %v", err)
	}
	if err := client.do(nbdFlush, 0, nil); errors.Is(err, nbdEIO) != lost || err != nil && !lost {
		t.Errorf("the flush: %v", err)
	}
	if err := client.do(nbdFlush, 0, nil); err != nil {
		t.Errorf("the flush after it: %v", err)
	}
	if lost {
		a.errOut.await(t, "writes may be lost")
	}
	a.finish(t)
}
