package failure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Usage is a mistake on the command line. It decides the exit code, whatever error it wraps.
type Usage struct{ Err error }

func (e Usage) Error() string { return e.Err.Error() }

// Usagef returns a [Usage].
func Usagef(format string, args ...any) error { return Usage{Err: fmt.Errorf(format, args...)} }

// Connect means that a controller or a target could not be reached, or rejected the connection.
type Connect struct{ Err error }

func (e *Connect) Error() string { return e.Err.Error() }

func (e *Connect) Unwrap() error { return e.Err }

// WrongData means that data differs from what was sent.
type WrongData struct{ Err error }

func (e *WrongData) Error() string { return e.Err.Error() }

func (e *WrongData) Unwrap() error { return e.Err }

// Said means that another process failed, and has printed the reason.
type Said struct{ Code int }

func (e *Said) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// Reported means that the command's output already contains the error.
type Reported struct{ Err error }

func (e *Reported) Error() string { return e.Err.Error() }

func (e *Reported) Unwrap() error { return e.Err }

// DidYouMean returns a question to append to the name of something that does not exist; "" if no name is similar.
func DidYouMean(s string, names []string) string {
	if near := nvmeof.Nearest(s, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Pick returns the format that --output-format names.
func Pick[F any](format string, formats map[string]F) (F, error) {
	f, ok := formats[format]
	if !ok {
		names := slices.Collect(maps.Keys(formats))
		return f, Usagef("--output-format %s: want one of %s%s", format, List(names), DidYouMean(format, names))
	}
	return f, nil
}

// List joins names in sorted order, as in a sentence. It sorts names in place.
func List(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// FlagNames returns the long names of a command's flags, as its usage shows them.
func FlagNames(cmd *cobra.Command) (names []string) {
	for word := range strings.FieldsSeq(cmd.Flags().FlagUsages()) {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			names = append(names, name)
		}
	}
	return names
}
