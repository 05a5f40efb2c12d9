package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
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
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "nvmeof (no build information); transports: softroce"
	}
	commit := "unknown commit"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = "commit " + s.Value
		}
	}
	return fmt.Sprintf("nvmeof %s, %s, %s; transports: softroce", info.Main.Version, commit, info.GoVersion)
}
