package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and transports",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version describes the program as the Go linker recorded it.
func version() string {
	transports := "softroce"
	if verbs.Built {
		transports += ", verbs"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "nvmeof (no build information); transports: " + transports
	}
	commit := "unknown commit"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = "commit " + s.Value
		}
	}
	return fmt.Sprintf("nvmeof %s, %s, %s; transports: %s", info.Main.Version, commit, info.GoVersion, transports)
}
