package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A resolver looks names up; [net.Resolver] does.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// lookUp puts addresses in the place of names in a command's --traddr, as nvme-cli does:
// the first that a name has. Whoever the command is handed to gets the addresses.
func lookUp(cmd *cobra.Command, r resolver) error {
	flag := cmd.Flags().Lookup("traddr")
	if flag == nil || !flag.Changed {
		return nil
	}
	all := strings.Split(flag.Value.String(), ",")
	for i, name := range all {
		if _, err := nvmeof.ParseAddress(name, ""); err == nil || strings.TrimSpace(name) == "" {
			continue // what is no address and no name is refused later, by those who say why
		}
		found, err := r.LookupNetIP(cmd.Context(), "ip", strings.TrimSpace(name))
		var unknown *net.DNSError
		switch {
		case errors.As(err, &unknown) && unknown.IsNotFound:
			return usage("--traddr: %s is no IP address, and no name that this machine knows (getent ahosts NAME tells): give the controller's address", nvmeof.Printable(name))
		case err != nil:
			return &connectError{Err: fmt.Errorf("--traddr %s: looking the name up: %w; an IP address needs no look-up", nvmeof.Printable(name), err)}
		}
		all[i] = found[0].Unmap().String()
	}
	return flag.Value.Set(strings.Join(all, ","))
}
