package fabricaccess

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/statusreport"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// NewBenchFabric returns a [benchcommand.Fabric] for a command.
func NewBenchFabric() benchcommand.Fabric { return new(benchFabric) }

// A benchFabric reaches the namespaces that bench measures.
type benchFabric struct{ fabricoptions.Held }

// AddFlags implements [benchcommand.Fabric].
func (f *benchFabric) AddFlags(cmd *cobra.Command) {
	f.Held.AddFlags(cmd, "")
	f.Measures = true
}

// Where implements [benchcommand.Fabric].
func (f *benchFabric) Where() benchcommand.Where {
	return benchcommand.Where{Traddr: f.Traddr, Trsvcid: f.Trsvcid, NQN: f.NQN, Provider: f.Provider, Queues: f.NrIOQueues}
}

// Addr implements [benchcommand.Fabric].
func (f *benchFabric) Addr() (netip.AddrPort, error) { return f.Held.Addr() }

// overPaths reports whether an option was given that makes even a single address a path that is reconnected.
func (f *benchFabric) overPaths(cmd *cobra.Command) bool {
	return strings.Contains(f.Traddr, ",") || slices.ContainsFunc(fabricoptions.All(), func(o hostconfig.Option) bool {
		return o.Lost && !o.IsFlag() && cmd.Flags().Changed(o.Name)
	})
}

// Measure implements [benchcommand.Fabric].
func (f *benchFabric) Measure(cmd *cobra.Command, run func(context.Context, benchcommand.Link) error) (*benchcommand.Paths, error) {
	if !f.overPaths(cmd) {
		return nil, withController(cmd, &f.Connection, func(ctx context.Context, c *host.Controller) error { return run(ctx, benchcommand.OverController(c)) })
	}
	return f.measurePaths(cmd, run)
}

func (f *benchFabric) measurePaths(cmd *cobra.Command, run func(context.Context, benchcommand.Link) error) (report *benchcommand.Paths, err error) {
	policy, err := multipath.ParsePolicy(cmp.Or(f.Policy, multipath.NUMA.String()))
	if err != nil {
		return nil, failure.Usagef("--iopolicy %v", err)
	}
	all := &hosts.Pool{Warn: cmd.ErrOrStderr()}
	defer func() { err = errors.Join(err, all.Close()) }()
	paths, err := all.Paths(&f.Held)
	if err != nil {
		return nil, err
	}
	diary := benchcommand.NewDiary(cmd.ErrOrStderr())
	defer diary.Close()
	cfg := multipath.Config{NQN: paths[0].Options.NQN, Policy: policy, Event: diary.Note}
	for _, p := range paths {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: p.Host, Options: p.Options, Keys: p.Keys, Timers: p.Timers})
	}
	ctx := cmd.Context()
	wait, cancel := context.WithTimeout(ctx, hosts.ConnectTime)
	defer cancel()
	answered := hosts.PrintSilence(cmd.ErrOrStderr(), paths...)
	s, err := multipath.Connect(wait, cfg)
	answered()
	if err != nil {
		return nil, hosts.Explain(ctx, err, paths...)
	}
	err = run(ctx, benchcommand.OverPaths(s))
	report = diary.Report(s, policy)
	var lost *multipath.NoPathError
	if errors.As(err, &lost) {
		err = &failure.Connect{Err: err}
	}
	if err != nil {
		err = statusreport.Failure(cmd, err, statusreport.General)
	}
	return report, errors.Join(err, s.Close())
}
