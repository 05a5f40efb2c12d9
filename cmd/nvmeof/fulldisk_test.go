package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestFullDisk checks that a failed write of the output is an error, also where cobra prints it.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, line := range []string{"help", "help target", "--help", "", "namespace", "ns add --help", "--version", "version", "completion bash", "target schema", "show-hostnqn"} {
		args := strings.Fields(line)
		root := newRootFor(args, nil)
		root.SetOut(full)
		root.SetErr(io.Discard)
		if err := execute(t.Context(), root, args); exitCode(err) != exitFailed {
			t.Errorf("%q: exit code %d, %v", line, exitCode(err), err)
		}
	}
}
