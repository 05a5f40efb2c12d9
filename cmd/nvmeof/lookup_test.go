package main

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/spf13/cobra"
)

// names are what a resolver knows.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch a := n[host]; a {
	case "":
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case "late":
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	default:
		return []netip.Addr{netip.MustParseAddr(a), netip.MustParseAddr("192.0.2.99")}, nil
	}
}

// TestLookUp: names become the addresses that they have, wherever one is wanted of a
// controller.
func TestLookUp(t *testing.T) {
	known := names{"storage": "192.0.2.7", "six": "2001:db8::7", "mapped": "::ffff:192.0.2.8", "slow": "late"}
	for _, c := range []struct {
		traddr, want string
		code         int
	}{
		{"192.0.2.1", "192.0.2.1", 0}, {"storage", "192.0.2.7", 0}, {"six,storage", "2001:db8::7,192.0.2.7", 0},
		{"192.0.2.1,mapped", "192.0.2.1,192.0.2.8", 0}, {"[2001:db8::1]", "[2001:db8::1]", 0}, {"", "", 0},
		{"nowhere", "nowhere", exitUsage}, {"slow", "slow", exitConnection},
	} {
		var conn connection
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		conn.addFlags(cmd)
		if err := cmd.Flags().Set("traddr", c.traddr); err != nil {
			t.Fatal(err)
		}
		if err := lookUp(cmd, known); exitCode(err) != c.code || conn.traddr != c.want {
			t.Errorf("%s is looked up as %s, %v, want %s and code %d", c.traddr, conn.traddr, err, c.want, c.code)
		}
	}
	o := command(t, words("connect -a localhost -n "+testNQN+" --dump-config")...).want(t, 0) // every machine knows that
	o.wantOne(t, `"traddr": "127.0.0.1"`, `"traddr": "::1"`)
	const unknown = "no..name is no IP address, and no name that this machine knows"
	for _, c := range newRoot().Commands() { // nvme-cli's, which have their flags from elsewhere, too
		if c.Flags().Lookup("traddr") != nil {
			command(t, c.Name(), "-a", "no..name").want(t, exitUsage, "--traddr: "+unknown)
		}
	}
	for _, line := range []string{"write-bw no..name", "ping -c -a no..name", "ping -s -a no..name", "hello no..name"} {
		command(t, append([]string{"rdma"}, words(line)...)...).want(t, exitUsage, unknown)
	}
	command(t, words("id-ctrl -a 192.0.2.1,192.0.2.2 -n "+testNQN)...).want(t, exitUsage, "one address here; attach and bench take several")
}
