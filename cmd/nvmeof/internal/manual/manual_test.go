package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// tree returns a command of each kind.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "Do things", Version: "v1"}
	run := func(*cobra.Command, []string) {}
	verb := &cobra.Command{Use: "verb FILE", Short: "Do one thing", Run: run, Example: "  prog verb 'a\\b'\n",
		Long: "Does it,\nin two lines.\n\nname   what\n.x     that\n\n.begins with a point"}
	verb.Flags().StringP("host-name", "w", "me", "`NAME` of this host")
	verb.Flags().Bool("quiet", false, "print nothing")
	verb.Flags().Bool("secret", false, "not for all")
	_ = verb.Flags().MarkHidden("secret")
	object := &cobra.Command{Use: "object", Short: "Things"}
	object.PersistentFlags().String("socket", "", "where")
	object.AddCommand(&cobra.Command{Use: "add", Short: "Add one", Run: run}, &cobra.Command{Use: "remove", Short: "Remove one", Run: run})
	root.AddCommand(verb, object, Command("v1"))
	return root
}

// TestPages checks that each command has a page with everything in its help, and without text that is taken for a
// request.
func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	root := tree()
	root.SetArgs([]string{"manual", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	wants := map[string][]string{
		"prog.1":        {`.TH "PROG" "1" "" "nvmeof v1"`, "prog \\- Do things\n", ".B \"verb\"\nDo one thing\n", "prog\\-verb(1)", `.B "\-v, \-\-version"`},
		"prog-verb.1":   {"Does it,\nin two lines.\n.PP\n.nf\nname   what\n\\&.x     that\n.fi\n.PP\n\\&.begins", `.B "\-w, \-\-host\-name NAME"` + "\nNAME of this host (default me)", "prog verb \\(aqa\\eb\\(aq\n", "SEE ALSO\"\nprog(1)\n"},
		"prog-object.1": {"prog object COMMAND ...", "prog(1), prog\\-object\\-add(1), prog\\-object\\-remove(1)\n"},

		"prog-object-add.1": {"DESCRIPTION\"\nAdd one.\n", ".SH \"INHERITED OPTIONS\"\n.TP\n.B \"\\-\\-socket string\"\nwhere\n", "prog\\-object(1), prog\\-object\\-remove(1)\n"},
	}
	for file, texts := range wants {
		page, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s lacks %q:\n%s", file, text, page)
			}
		}
		if strings.Contains(string(page), "secret") || strings.Contains(string(page), "manual") {
			t.Errorf("%s names what is hidden:\n%s", file, page)
		}
	}
	for _, hidden := range []string{"prog-manual.1", "prog-help.1"} {
		if _, err := os.Stat(filepath.Join(dir, hidden)); err == nil {
			t.Errorf("%s is there", hidden)
		}
	}
}
