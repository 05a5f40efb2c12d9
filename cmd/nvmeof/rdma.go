package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rdmatools"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// rdmaDevices opens the devices of the commands below rdma, as a host does for other
// commands.
type rdmaDevices struct{ connection }

func newRDMADevices(measures bool) rdmatools.Devices {
	return &rdmaDevices{connection{transport: "rdma", windows: windowsAuto, measures: measures}}
}

func (d *rdmaDevices) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.provider, "provider", transportSoftroce, "RDMA transport: "+transportHelp)
	f.Var((*patience)(&d.ackTimeout), "ack-timeout", ackTimeoutHelp)
	f.IntVar(&d.rcvbuf, "rcvbuf", 0, "bytes of each receive socket's buffer with softroce (default: 8 MiB, as far as allowed)")
	f.Var((*congestion)(&d.congestion), "congestion", congestionHelp)
}

func (d *rdmaDevices) Address(ctx context.Context, name string) (netip.Addr, error) {
	text, err := addressOf(ctx, net.DefaultResolver, "address", name)
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
	d.hostTraddr = addr.String()
	return d.openDeviceAt(addr, 1, say)
}

// here is the address of a server.
func (d *rdmaDevices) here(ctx context.Context, own string, say io.Writer) (netip.Addr, error) {
	if own != "" {
		addr, err := d.Address(ctx, own)
		if err != nil || !addr.IsUnspecified() {
			return addr, err
		}
	}
	all, err := machineAddresses()
	if err != nil {
		return netip.Addr{}, err
	}
	all = slices.DeleteFunc(all, func(a netip.Addr) bool { return !reachable(a) })
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	switch len(all) {
	case 0:
		return netip.Addr{}, errors.New("no interface has an address that other machines reach: give one, of 127/8 for a client on this machine")
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
	d.hostTraddr = own
	return d.openDeviceAt(server, 1, say)
}

func (d *rdmaDevices) checkProvider() error {
	if !isTransport(d.provider) {
		return failure.Usagef("--provider %s: want %s", d.provider, transportHelp)
	}
	return nil
}
