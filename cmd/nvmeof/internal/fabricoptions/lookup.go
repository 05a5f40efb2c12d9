package fabricoptions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A resolver resolves names; [net.Resolver] is one.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// lookUp replaces names in a command's --traddr by their first address, as nvme-cli does. A process that connects on
// behalf of this one receives the addresses.
func lookUp(cmd *cobra.Command, r resolver) error {
	flag := cmd.Flags().Lookup("traddr")
	if flag == nil || !flag.Changed {
		return nil
	}
	all := strings.Split(flag.Value.String(), ",")
	for i, name := range all {
		if strings.TrimSpace(name) == "" {
			continue // rejected later, with an explanation
		}
		var err error
		if all[i], err = AddressOf(cmd.Context(), r, "--traddr", name); err != nil {
			return err
		}
	}
	return flag.Value.Set(strings.Join(all, ","))
}

// AddressOf returns an address unchanged, and for a name its first address. what names the option or argument in
// errors.
func AddressOf(ctx context.Context, r resolver, what, name string) (string, error) {
	if _, err := nvmeof.ParseAddress(name, ""); err == nil {
		return name, nil
	}
	found, err := r.LookupNetIP(ctx, "ip", strings.TrimSpace(name))
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return name, failure.Usagef("%s: %s is not an IP address, and its name cannot be resolved (see getent ahosts NAME): give an address", what, nvmeof.Printable(name))
	case err != nil:
		return name, &failure.Connect{Err: fmt.Errorf("%s %s: looking up the name: %w; give an IP address instead", what, nvmeof.Printable(name), err)}
	}
	return found[0].Unmap().String(), nil
}
