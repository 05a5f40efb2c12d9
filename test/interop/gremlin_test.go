package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGremlin has the raw peer attack the kernel's target, beside the kernel's host, which behaves well.
// docs/testing.md compares our target with the result. The test only requires that each attack ends. An attack that
// brings the machine down has ended too; the others continue on another machine.
func TestGremlin(t *testing.T) {
	if !*whole {
		t.Skip("half an hour, about another's target: go test ./test/interop -guest -whole -v -run TestGremlin -timeout 80m")
	}
	needGuest(t)
	program := filepath.Join(t.TempDir(), "gremlin")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./test/gremlin").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := exec.Command(program, "-list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for line := range strings.Lines(string(list)) {
		name, what, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(strings.TrimSpace(what), "a target that") { // those are attacks on hosts
			left = append(left, name)
		}
	}
	for len(left) > 0 {
		// Each machine has a subtest, since a lab ends with its test.
		t.Run(left[0], func(t *testing.T) { left = left[attackNvmet(t, left):] })
	}
}

// attackNvmet attacks until all attacks are made, or the machine is down. It returns how many attacks were begun.
func attackNvmet(t *testing.T, attacks []string) int {
	l := newLabWith(t, peerSoftroce)
	l.install(t, "./test/gremlin", "gremlin")
	l.link(t, 4200)
	e := env{"nqn": targetNQN, "addr": "10.9.0.2", "family": "ipv4", "storage": "memory"}
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	_, down := l.run(hostEnd, 40*time.Minute, script(t, "gremlin", e.with(env{"attacks": strings.Join(attacks, " ")})))
	said, err := os.ReadFile(filepath.Join(l.hostDir, "gremlin.txt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", said)
	begun := strings.Count("\n"+string(said), "\nattack ")
	if begun == 0 {
		t.Fatalf("no attack was begun: %v", down)
	}
	if down != nil {
		t.Logf("%s: %v", attacks[begun-1], down)
		return begun
	}
	return len(attacks)
}
