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

// release is the version of this source, whose changes CHANGELOG.md lists.
const release = "v0.1.0"

// version describes the program: what it was built from as the Go linker recorded it.
func version() string {
	transports := "softroce"
	if verbs.Built {
		transports += ", verbs"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "nvmeof " + release + " (no build information); transports: " + transports
	}
	return fmt.Sprintf("nvmeof %s, %s, %s; transports: %s", release, origin(info), info.GoVersion, transports)
}

// origin is the commit of the source, or where no repository was at hand the version of
// the module that was built.
func origin(info *debug.BuildInfo) string {
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	switch module := info.Main.Version; {
	case commit != "":
		return "commit " + commit + modified
	case module != "" && module != "(devel)":
		return "module " + module
	}
	return "unknown commit"
}
