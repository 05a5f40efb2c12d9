package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExample: the configuration that is published is right.
func TestExample(t *testing.T) {
	command(t, "target", "check", "../../deploy/target.yaml").want(t, 0, "2 listener(s), 2 subsystem(s), 3 namespace(s)")
}

// TestConnectUnit: the command lines that the unit shows are right.
func TestConnectUnit(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	inOwnRunDir(t)
	text, err := os.ReadFile("../../deploy/nvmeof-connect@.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)CONNECT=(.* -a .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 2 {
		t.Fatalf("%d command lines", len(lines))
	}
	for _, l := range lines {
		command(t, append(strings.Fields(l[1]), "--dump-config")...).want(t, 0, `"traddr": "192.0.2.1"`)
	}
}
