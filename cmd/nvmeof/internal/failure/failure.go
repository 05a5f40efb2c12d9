package failure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Usage is a mistake on the command line. What it wraps is not looked at: the mistake
// decides the exit code.
type Usage struct{ Err error }

func (e Usage) Error() string { return e.Err.Error() }

// Usagef makes a [Usage].
func Usagef(format string, args ...any) error { return Usage{Err: fmt.Errorf(format, args...)} }

// Connect is a controller or a target that was not reached, or did not want us.
type Connect struct{ Err error }

func (e *Connect) Error() string { return e.Err.Error() }

func (e *Connect) Unwrap() error { return e.Err }

// WrongData is data that is not what was sent.
type WrongData struct{ Err error }

func (e *WrongData) Error() string { return e.Err.Error() }

func (e *WrongData) Unwrap() error { return e.Err }

// Said is what another process has failed with, which has said why.
type Said struct{ Code int }

func (e *Said) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// Reported is what the answer of a command has said already.
type Reported struct{ Err error }

func (e *Reported) Error() string { return e.Err.Error() }

func (e *Reported) Unwrap() error { return e.Err }

// DidYouMean is a question that goes after a name that does not exist; empty where none
// of the names is near.
func DidYouMean(s string, names []string) string {
	if near := nvmeof.Nearest(s, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Pick finds what --output-format names.
func Pick[F any](format string, formats map[string]F) (F, error) {
	f, ok := formats[format]
	if !ok {
		names := slices.Collect(maps.Keys(formats))
		return f, Usagef("--output-format %s: want one of %s%s", format, List(names), DidYouMean(format, names))
	}
	return f, nil
}

// List are names in one order, as a sentence has them; it sorts them.
func List(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// FlagNames are the long names of a command's flags, as its usage shows them.
func FlagNames(cmd *cobra.Command) (names []string) {
	for word := range strings.FieldsSeq(cmd.Flags().FlagUsages()) {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			names = append(names, name)
		}
	}
	return names
}
