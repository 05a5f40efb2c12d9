package fabricaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rdmatools"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// rdmaDevices opens the devices of the commands below rdma, as a host does for other commands.
type rdmaDevices struct{ provider.Options }

// NewRDMADevices returns the [rdmatools.Devices] for a command below rdma.
func NewRDMADevices(measures bool) rdmatools.Devices {
	return &rdmaDevices{provider.Options{Windows: provider.WindowsAuto, Measures: measures}}
}

func (d *rdmaDevices) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.Provider, "provider", provider.Softroce, "RDMA transport: "+provider.Help)
	f.Var((*fabricoptions.Duration)(&d.AckTimeout), "ack-timeout", provider.AckTimeoutHelp)
	f.IntVar(&d.ReceiveBuffer, "rcvbuf", 0, "receive buffer of each socket in bytes, with softroce (default: 8 MiB, as far as allowed)")
	f.Var((*provider.CongestionFlag)(&d.Congestion), "congestion", provider.CongestionHelp)
}

func (d *rdmaDevices) Address(ctx context.Context, name string) (netip.Addr, error) {
	text, err := fabricoptions.AddressOf(ctx, net.DefaultResolver, "address", name)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := nvmeof.ParseAddress(text, "")
	if err != nil {
		return netip.Addr{}, failure.Usagef("%v", err)
	}
	return a.Addr(), nil
}

func (d *rdmaDevices) Here(ctx context.Context, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error) {
	if err := d.checkProvider(); err != nil {
		return nil, netip.Addr{}, err
	}
	addr, err := d.here(ctx, own, say)
	if err != nil {
		return nil, addr, err
	}
	d.HostTraddr = addr.String()
	return d.OpenDevice(addr, 1, say)
}

// here returns the address of a server.
func (d *rdmaDevices) here(ctx context.Context, own string, say io.Writer) (netip.Addr, error) {
	if own != "" {
		addr, err := d.Address(ctx, own)
		if err != nil || !addr.IsUnspecified() {
			return addr, err
		}
	}
	all, err := control.MachineAddresses()
	if err != nil {
		return netip.Addr{}, err
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	switch len(all) {
	case 0:
		return netip.Addr{}, errors.New("no interface has an address that other machines can reach: give one, in 127/8 for a client on this machine")
	case 1:
		return all[0], nil
	}
	_, err = fmt.Fprintf(say, "at the first address of this machine; it has also %s\n", failure.List(addressTexts(all[1:])))
	return all[0], err
}

func addressTexts(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

func (d *rdmaDevices) Towards(server netip.Addr, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error) {
	if err := d.checkProvider(); err != nil {
		return nil, netip.Addr{}, err
	}
	d.HostTraddr = own
	return d.OpenDevice(server, 1, say)
}

func (d *rdmaDevices) checkProvider() error {
	if !provider.IsName(d.Provider) {
		return failure.Usagef("--provider %s: want %s", d.Provider, provider.Help)
	}
	return nil
}
