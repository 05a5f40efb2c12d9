package doctor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// Command returns the command nvmeof doctor.
func Command() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what this machine offers for RDMA and how to fix what is missing",
		Long: `Show what this machine offers: RDMA devices, their ports and addresses, network
interfaces, limits, modules, the process that uses UDP port 4791, the transport that
--transport auto selects for each address, whether Ceph images and groups can be
used, how the program was installed, and which of its units run. What is missing
follows as lines "problem: ...; fix: ..." and "note: ...; fix: ...". It changes
nothing and needs no root; it reports what it may not read. The exit status is 1
only if no transport can work at any address.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := failure.Pick(format, map[string]func(io.Writer, *Report) error{
				"normal": Text, "json": JSON,
			})
			if err != nil {
				return err
			}
			m, err := thisMachine()
			if err != nil {
				return err
			}
			report := Judge(Gather(m))
			if err := print(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if !report.Works {
				return errors.New("no transport works at any address of this machine")
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	return cmd
}

// thisMachine returns the machine that the program runs on.
func thisMachine() (*Machine, error) {
	addresses, err := localAddresses()
	if err != nil {
		return nil, fmt.Errorf("listing the network interfaces: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return &Machine{
		Program: program,
		Files:   os.DirFS("/"), Addresses: addresses, Processors: runtime.NumCPU(),
		Verbs: verbs.Built, Ceph: rbd.Built, Libraries: verbs.Library, Details: deviceDetails, Choose: provider.Choose,
		Access:  func(path string) bool { return unix.Access(path, unix.R_OK|unix.W_OK) == nil },
		IOUring: file.TryURing,
	}, nil
}

func localAddresses() (all []Address, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, Address{Interface: i.Name, Prefix: p})
			}
		}
	}
	return all, nil
}

// deviceDetails returns what the devices report that can be queried.
func deviceDetails() ([]Details, error) {
	infos, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	var all []Details
	for _, d := range infos {
		all = append(all, Details{
			Name: d.Name, Err: d.Err, ActiveMTU: d.ActiveMTU,
			Limits: Limits{
				QueuePairs: d.MaxQP, QueueDepth: d.MaxQueueDepth, Completions: d.MaxCQE, Regions: d.MaxMR, RegionBytes: d.MaxMRBytes,
				SharedQueues: d.MaxSRQ, ReadsIn: d.MaxReadsIn, ReadsOut: d.MaxReadsOut, MemoryWindows: d.MaxWindows,
			},
		})
	}
	return all, nil
}
