package main

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricaccess"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/spf13/cobra"
)

// newBench is nvmeof bench, which takes the exports of the target.
func newBench() *cobra.Command {
	return benchcommand.New(fabricaccess.NewBenchFabric(), benchcommand.Program{Version: version, NeedProcessors: processors.Need, ParseStore: parseBenchStore})
}

// parseBenchStore reads an export as the target's --export does.
func parseBenchStore(what string) (open func() (backend.Store, error), _ error) {
	n, err := parseExport(what)
	return func() (backend.Store, error) {
		s, _, err := control.OpenStore(n)
		return s, withSize(n, err)
	}, err
}
