package main

import (
	"testing"
)

// TestNames: each command takes a name in the place of an address.
func TestNames(t *testing.T) {
	o := command(t, words("connect -a localhost -n "+testNQN+" --dump-config")...).want(t, 0) // every machine knows that
	o.wantOne(t, `"traddr": "127.0.0.1"`, `"traddr": "::1"`)
	const unknown = "no..name is not an IP address, and its name cannot be resolved"
	for _, c := range newRoot(nil).Commands() { // nvme-cli's, which have their flags from elsewhere, too
		if c.Flags().Lookup("traddr") != nil {
			command(t, c.Name(), "-a", "no..name").want(t, exitUsage, "--traddr: "+unknown)
		}
	}
	for _, line := range []string{"write-bw no..name", "ping -c -a no..name", "ping -s -a no..name", "hello no..name"} {
		command(t, append([]string{"rdma"}, words(line)...)...).want(t, exitUsage, unknown)
	}
	command(t, words("id-ctrl -a 192.0.2.1,192.0.2.2 -n "+testNQN)...).want(t, exitUsage, "want one address; only attach and bench take several")
}
