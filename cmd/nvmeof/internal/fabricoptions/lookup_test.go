package fabricoptions

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// names are the entries of a resolver.
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

// TestLookUp checks that names are accepted wherever the address of a controller is expected.
func TestLookUp(t *testing.T) {
	known := names{"storage": "192.0.2.7", "six": "2001:db8::7", "mapped": "::ffff:192.0.2.8", "slow": "late"}
	for _, c := range []struct {
		traddr, want string
		refused      any // type of the error
	}{
		{"192.0.2.1", "192.0.2.1", nil}, {"storage", "192.0.2.7", nil}, {"six,storage", "2001:db8::7,192.0.2.7", nil},
		{"192.0.2.1,mapped", "192.0.2.1,192.0.2.8", nil}, {"[2001:db8::1]", "[2001:db8::1]", nil}, {"", "", nil},
		{"nowhere", "nowhere", new(failure.Usage)}, {"slow", "slow", new(*failure.Connect)},
	} {
		var conn Connection
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		conn.AddFlags(cmd)
		if err := cmd.Flags().Set("traddr", c.traddr); err != nil {
			t.Fatal(err)
		}
		err := lookUp(cmd, known)
		if c.refused == nil && err != nil || c.refused != nil && !errors.As(err, c.refused) || conn.Traddr != c.want {
			t.Errorf("%s is looked up as %s, %v, want %s and %T", c.traddr, conn.Traddr, err, c.want, c.refused)
		}
	}
}
