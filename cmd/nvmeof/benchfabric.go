package main

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

func newBench() *cobra.Command {
	return benchcommand.New(new(benchFabric), benchcommand.Program{Version: version, NeedProcessors: needProcessors, ParseStore: parseBenchStore})
}

// parseBenchStore reads an export as the target's --export does.
func parseBenchStore(what string) (open func() (backend.Store, error), _ error) {
	e, err := parseExport(what)
	return func() (backend.Store, error) { return e.open(zap.NewNop()) }, err
}

// A benchFabric is how bench gets at the namespaces that it measures.
type benchFabric struct{ held }

// AddFlags implements [benchcommand.Fabric].
func (f *benchFabric) AddFlags(cmd *cobra.Command) {
	f.addFlags(cmd, "")
	f.measures = true
}

// Where implements [benchcommand.Fabric].
func (f *benchFabric) Where() benchcommand.Where {
	return benchcommand.Where{Traddr: f.traddr, Trsvcid: f.trsvcid, NQN: f.nqn, Provider: f.provider, Queues: f.nrIOQueues}
}

// Addr implements [benchcommand.Fabric].
func (f *benchFabric) Addr() (netip.AddrPort, error) { return f.addr() }

// overPaths reports whether one of the options was given with which even one address is a
// path that may come back.
func (f *benchFabric) overPaths(cmd *cobra.Command) bool {
	return strings.Contains(f.traddr, ",") || slices.ContainsFunc(allOptions(), func(o hostconfig.Option) bool {
		return o.Lost && !o.IsFlag() && cmd.Flags().Changed(o.Name)
	})
}

// Measure implements [benchcommand.Fabric].
func (f *benchFabric) Measure(cmd *cobra.Command, run func(context.Context, benchcommand.Link) error) (*benchcommand.Paths, error) {
	if !f.overPaths(cmd) {
		return nil, f.connected(cmd, func(ctx context.Context, c *host.Controller) error { return run(ctx, benchcommand.OverController(c)) })
	}
	return f.measurePaths(cmd, run)
}

func (f *benchFabric) measurePaths(cmd *cobra.Command, run func(context.Context, benchcommand.Link) error) (report *benchcommand.Paths, err error) {
	policy, err := multipath.ParsePolicy(cmp.Or(f.policy, multipath.NUMA.String()))
	if err != nil {
		return nil, failure.Usagef("--iopolicy %v", err)
	}
	all := &hosts{warn: cmd.ErrOrStderr()}
	defer func() { err = errors.Join(err, all.close()) }()
	paths, identity, err := f.paths(all)
	if err != nil {
		return nil, err
	}
	diary := benchcommand.NewDiary(cmd.ErrOrStderr())
	defer diary.Close()
	cfg := multipath.Config{NQN: paths[0].Options.NQN, Policy: policy, Event: diary.Note}
	for _, p := range paths {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: p.Host, Options: p.Options, Timers: p.Timers})
	}
	ctx := cmd.Context()
	wait, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	answered := tellSilence(cmd.ErrOrStderr(), paths...)
	s, err := multipath.Connect(wait, cfg)
	answered()
	if err != nil {
		return nil, explain(ctx, err, identity)
	}
	err = run(ctx, benchcommand.OverPaths(s))
	report = diary.Report(s, policy)
	var lost *multipath.NoPathError
	if errors.As(err, &lost) {
		err = &failure.Connect{Err: err}
	}
	if err != nil {
		err = statusFailure(cmd, err, func(status capsule.Status) string { return adviceTexts[status.Code()] })
	}
	return report, errors.Join(err, s.Close())
}
