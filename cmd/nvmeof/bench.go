package main

import (
	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricaccess"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
)

// newBench returns the command nvmeof bench, which accepts the exports of the target.
func newBench() *cobra.Command {
	return benchcommand.New(fabricaccess.NewBenchFabric(), benchcommand.Program{Version: version, NeedProcessors: processors.Need, ParseStore: targetcommand.ParseStore})
}
