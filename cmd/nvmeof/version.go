package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

func newVersion() *cobra.Command {
	format := "normal"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and transports",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := failure.Pick(format, map[string]func() []byte{
				"normal": func() []byte { return []byte(version() + "\n") },
				"json":   func() []byte { return config.JSON(versionFacts()) },
			})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text())
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output-format", "o", format, "normal or json")
	return cmd
}

// facts describes the version for programs.
type facts struct {
	Version    string   `json:"version"`
	Commit     string   `json:"commit,omitempty"`
	Modified   bool     `json:"modified"` // the source had changes that are not in the commit
	Go         string   `json:"go"`
	Transports []string `json:"transports"`
}

func versionFacts() facts {
	f := facts{Version: release, Go: runtime.Version(), Transports: []string{"softroce"}}
	if verbs.Built {
		f.Transports = append(f.Transports, "verbs")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		f.Commit, f.Modified = commit(info)
	}
	return f
}

// release is the version of this source; CHANGELOG.md lists its changes.
const release = "v0.1.0"

// version describes the program with the build information that the Go linker recorded.
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

// origin returns the commit of the source, or the version of the module if it was built outside a repository.
func origin(info *debug.BuildInfo) string {
	revision, modified := commit(info)
	changes := ""
	if modified {
		changes = " with changes"
	}
	switch module := info.Main.Version; {
	case revision != "":
		return "commit " + revision + changes
	case module != "" && module != "(devel)":
		return "module " + module
	}
	return "unknown commit"
}

// commit returns the revision that the Go linker recorded, and whether the source was modified.
func commit(info *debug.BuildInfo) (revision string, modified bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return revision, modified
}
