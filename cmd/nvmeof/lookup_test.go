package main

import (
	"testing"
)

// TestNames checks that each command accepts a name in place of an address.
func TestNames(t *testing.T) {
	o := command(t, words("connect -a localhost -n "+testNQN+" --dump-config")...).want(t, 0) // every machine resolves it
	o.wantOne(t, `"traddr": "127.0.0.1"`, `"traddr": "::1"`)
	const unknown = "no..name is not an IP address, and its name cannot be resolved"
	for _, c := range newRoot(nil).Commands() { // also nvme-cli's commands, which get their flags from elsewhere
		if c.Flags().Lookup("traddr") != nil {
			command(t, c.Name(), "-a", "no..name").want(t, exitUsage, "--traddr: "+unknown)
		}
	}
	for _, line := range []string{"write-bw no..name", "ping -c -a no..name", "ping -s -a no..name", "hello no..name"} {
		command(t, append([]string{"rdma"}, words(line)...)...).want(t, exitUsage, unknown)
	}
	command(t, words("id-ctrl -a 192.0.2.1,192.0.2.2 -n "+testNQN)...).want(t, exitUsage, "want one address; only attach and bench take several")
}
