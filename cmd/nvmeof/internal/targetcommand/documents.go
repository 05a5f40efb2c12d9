package targetcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// targetCommands returns the commands about configurations.
func targetCommands() []*cobra.Command {
	return []*cobra.Command{newCheck(), newApply(), newDiff(), newExport(), newImport(), newSave(), newSchema()}
}

func newCheck() *cobra.Command {
	return &cobra.Command{Use: "check FILE", Short: "Check a configuration, without a target", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := ReadConfig(cmd.Context(), args[0], cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if len(doc.Listeners) == 0 && len(doc.Subsystems) > 0 {
				return checkShared(cmd.OutOrStdout(), args[0], doc)
			}
			if err := sharedElsewhere(args[0], doc); err != nil {
				return err
			}
			t, err := newConfigured(&Daemon{File: args[0], Document: doc, Log: zap.NewNop()}, nil)
			if err != nil {
				return err
			}
			if err := t.Close(); err != nil {
				return err
			}
			var found config.Problems
			err = unlessHung(cmd.Context(), nil, func() string { return "a file or device that it exports" }, func() error {
				if clashes := control.Clashes(doc, args[0]); len(clashes) > 0 {
					for i := range clashes {
						clashes[i].File = args[0]
					}
					return failure.Usage{Err: clashes}
				}
				found = append(foreseePorts(doc), control.Foresee(cmd.Context(), doc, stateDir(), os.Getenv)...)
				return nil
			})
			if err != nil {
				return err
			}
			for _, p := range found {
				p.File = args[0]
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", p)
			}
			namespaces := 0
			for _, s := range doc.Subsystems {
				namespaces += len(s.Namespaces)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %d listener(s), %d subsystem(s), %d namespace(s)\n",
				args[0], len(doc.Listeners), len(doc.Subsystems), namespaces)
			return nil
		}}
}

// checkShared checks a document without listeners, which is one for the gateways of a group.
func checkShared(out io.Writer, name string, doc *config.Document) error {
	of := doc.Clone()
	of.Group.Store = "etcd://127.0.0.1:2379/check" // the check is the same for all groups
	if _, err := of.Check(); err != nil {
		return failure.Usage{Err: fmt.Errorf("%s, which has no listeners and so is checked for the gateways of a group: %w", name, err)}
	}
	namespaces := 0
	for _, s := range doc.Subsystems {
		namespaces += len(s.Namespaces)
	}
	fmt.Fprintf(out, "%s is valid for the gateways of a group: %d subsystem(s), %d namespace(s)\n", name, len(doc.Subsystems), namespaces)
	return nil
}

func newApply() *cobra.Command {
	var r administer.Remote
	cmd := &cobra.Command{Use: "apply FILE", Short: "Apply a configuration to the running target: all of it, or nothing", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, cut, err := readWhole(cmd.Context(), args[0], cmd.InOrStdin(), io.Discard) // the target prints the same warnings
			switch {
			case err != nil:
				return err
			case cut != nil && !r.Forced():
				return failure.Usagef("%v, or give --force; nothing was changed", cut)
			}
			return r.Edit(cmd, "PUT", "/v1/config", doc)
		}}
	r.AddSocket(cmd)
	r.AddEdit(cmd)
	return cmd
}

func newDiff() *cobra.Command {
	var r administer.Remote
	cmd := &cobra.Command{Use: "diff [FROM] TO", Short: "Show what apply would change in the running target, or in another configuration", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var docs []*config.Document
			for _, name := range args {
				doc, err := ReadConfig(cmd.Context(), name, cmd.InOrStdin(), io.Discard)
				if err != nil {
					return err
				}
				docs = append(docs, doc)
			}
			if len(docs) == 1 {
				running := new(config.Document)
				if err := r.Get(cmd.Context(), "/v1/config", running); err != nil {
					return err
				}
				docs = []*config.Document{running, docs[0]}
			}
			steps := control.Steps(config.Diff(docs[0], docs[1]))
			return r.Show(cmd.OutOrStdout(), steps, func(w io.Writer) {
				for _, s := range steps {
					fmt.Fprintln(w, s.Text)
				}
			})
		}}
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

func newSave() *cobra.Command {
	var r administer.Remote
	cmd := &cobra.Command{Use: "save [FILE]", Short: "Write the running target's configuration to a file, or to the one that it was started with: only what differs", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.Save(cmd, strings.Join(args, ""))
		}}
	r.AddSocket(cmd)
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Print the JSON Schema of configurations", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		}}
}

var exportFormats = []string{"yaml", "json", "nvmetcli"}

func newExport() *cobra.Command {
	var r administer.Remote
	var format, from, output string
	cmd := &cobra.Command{Use: "export", Short: "Print the running target's configuration", Args: cobra.NoArgs,
		Long: `Print the running target's configuration, or with --from that of a file, in
canonical form. With --format nvmetcli the output is a file that nvmetcli restores
on a kernel target; it contains the keys, which are read from their files.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc := new(config.Document)
			var err error
			if from != "" {
				doc, err = ReadConfig(cmd.Context(), from, cmd.InOrStdin(), cmd.ErrOrStderr())
			} else {
				err = r.Get(cmd.Context(), "/v1/config", doc)
			}
			if err != nil {
				return err
			}
			text, err := inFormat(doc, format, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return writeOut(cmd, output, text, format == "nvmetcli")
		}}
	cmd.Flags().StringVar(&format, "format", "yaml", "yaml, json or nvmetcli (/etc/nvmet/config.json)")
	cmd.Flags().StringVar(&from, "from", "", "file to read instead of the running target")
	cmd.Flags().StringVar(&output, "output", "", "file to write instead of standard output; a new file has mode 0600 and the owner of its directory, an existing one keeps its own")
	r.AddSocket(cmd)
	return cmd
}

func inFormat(doc *config.Document, format string, errOut io.Writer) ([]byte, error) {
	switch format {
	case "yaml":
		return doc.YAML(), nil
	case "json":
		return doc.JSON(), nil
	case "nvmetcli":
		fixIdentities(doc)
		text, warnings, err := config.ExportNvmetcli(doc, keyText)
		if err != nil {
			return nil, failure.Usage{Err: err}
		}
		for _, w := range warnings {
			fmt.Fprintln(errOut, "warning:", w)
		}
		return text, nil
	}
	return nil, failure.Usagef("--format %s: want yaml, json or nvmetcli%s", format, failure.DidYouMean(format, exportFormats))
}

// fixIdentities sets the UUIDs of namespaces that hosts know and that depend on more than the document.
func fixIdentities(doc *config.Document) {
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			if n.UUID != (config.UUID{}) || n.File == nil {
				continue
			}
			if mark := file.ReadMark(string(n.File.Path)); mark != nil {
				n.UUID = config.DefaultUUID(s.NQN, n.NSID, string(n.File.Path), mark)
			}
		}
	}
}

// keyText reads a key file for export.
func keyText(file config.KeyFile) (string, error) {
	path, err := file.Expand(os.Getenv)
	if err != nil {
		return "", err
	}
	k, _, err := control.ReadKey(context.Background(), path)
	if err != nil {
		return "", err
	}
	return k.Text(), nil
}

// writeOut writes to a file, or to standard output if the name is empty. A file with secrets is readable by its owner
// only.
func writeOut(cmd *cobra.Command, name string, text []byte, secret bool) error {
	if name == "" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	if err := mayReplace(cmd.Context(), name); err != nil {
		return err
	}
	return namedfile.Replace(name, text, namedfile.Options{Secret: secret})
}

// mayReplace rejects an existing file that is not a configuration, such as a disk that was named by mistake.
func mayReplace(ctx context.Context, name string) error {
	const fix = "is it the right file? Give another name, or remove it if it is not needed; it was not changed"
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // writing it reports what is wrong
	}
	if info.Size() > config.MaxText {
		return fmt.Errorf("%s exists and is not a configuration: %s", name, fix)
	}
	old, err := namedfile.Read(ctx, name, config.MaxText)
	if err == nil && !config.Resembles(old) {
		err = fmt.Errorf("%s exists and is not a configuration: %s", name, fix)
	}
	return err
}

func newImport() *cobra.Command {
	var format, output, keyDir string
	cmd := &cobra.Command{Use: "import FILE", Short: "Convert nvmetcli's /etc/nvmet/config.json to a configuration", Args: cobra.ExactArgs(1),
		Long: `Convert the configuration file of nvmetcli, for the kernel's target, and print the
result. Keys are written to files of mode 0600 in --key-dir; existing files are not
overwritten. Settings that this target does not have are reported.`,
		Example: "  nvmeof target import --output /etc/nvmeof/target.yaml /etc/nvmet/config.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "nvmetcli" {
				return failure.Usagef("--format %s: want nvmetcli%s", format, failure.DidYouMean(format, []string{"nvmetcli"}))
			}
			text, err := readFileOr(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(keyDir)
			if err != nil {
				return err
			}
			in, err := config.ImportNvmetcli(args[0], text, dir)
			if err != nil {
				return failure.Usage{Err: err}
			}
			for _, w := range in.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			if err := writeKeys(cmd.Context(), in.Keys, dir); err != nil {
				return err
			}
			return writeOut(cmd, output, in.Document.YAML(), false)
		}}
	cmd.Flags().StringVar(&format, "format", "nvmetcli", "format of the file: nvmetcli")
	cmd.Flags().StringVar(&output, "output", "", "file to write instead of standard output; a new file has mode 0600 and the owner of its directory, an existing one keeps its own")
	cmd.Flags().StringVar(&keyDir, "key-dir", "/etc/nvmeof/keys", "directory for the files with keys")
	return cmd
}

// writeKeys writes the key files that do not exist. It fails if one exists with another key.
func writeKeys(ctx context.Context, keys []config.ImportedKey, dir string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := namedfile.MakeFolder(dir); err != nil {
		return err
	}
	for _, k := range keys {
		text := []byte(k.Secret + "\n")
		same, err := namedfile.Compare(ctx, k.Path, text)
		switch {
		case err == nil && same:
		case err == nil:
			return fmt.Errorf("%s already has another key: move it away, or give another --key-dir", k.Path)
		case errors.Is(err, os.ErrNotExist):
			if err := namedfile.Replace(k.Path, text, namedfile.Options{Secret: true}); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
