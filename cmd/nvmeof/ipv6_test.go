package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onIPv6 serves at two addresses of a machine, and connects to both from the same machine.
const onIPv6 = `
ip link set lo up && ip address add fd00::1/128 dev lo nodad && ip address add fd00::2/128 dev lo nodad || exit 99
"$0" target --listen fd00::1 --listen fd00::2 --nqn NQN --export mem:1MiB --allow-any-host --socket socket > target.out 2>&1 &
while [ ! -S socket ]; do sleep 0.05; done
set -e
for a in fd00::1 fd00::2; do
	"$0" id-ns -t rdma -a $a -n NQN | grep nsze
done
"$0" connect-all -t rdma -a fd00::2 > connected.out 2>&1 &
until "$0" list-subsys | grep fd00::1 && "$0" list-subsys | grep fd00::2; do sleep 0.05; done
`

// TestIPv6OfOneMachine checks that a host reaches each IPv6 address of a target on its own machine without
// --host-traddr. It runs in a network namespace of its own.
func TestIPv6OfOneMachine(t *testing.T) {
	beside(t)
	haveTool(t, "ip")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(onIPv6, "NQN", testNQN), self)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), asProgram+"=1", "NVMEOF_RUN_DIR="+environment(t)["NVMEOF_RUN_DIR"], "XDG_CONFIG_HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, // remaining processes end with sh
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	done := newOutput()
	cmd.Stdout, cmd.Stderr = done, done
	if err := cmd.Start(); err != nil {
		t.Skipf("needs a network namespace: %v", err)
	}
	limit := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	switch err := cmd.Wait(); {
	case err != nil && cmd.ProcessState.ExitCode() == 99:
		t.Skipf("needs IPv6: %s", done)
	case err != nil:
		target, _ := os.ReadFile(filepath.Join(cmd.Dir, "target.out"))
		connected, _ := os.ReadFile(filepath.Join(cmd.Dir, "connected.out"))
		t.Errorf("%v\n%s%s%s", err, done, target, connected)
	}
}
