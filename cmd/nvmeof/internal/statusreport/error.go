package statusreport

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A Error is reported as it is, without the program's name: as nvme-cli reports
// a status. Without text it has been reported. The advice is for people at a terminal:
// programs read what nvme-cli prints.
type Error struct {
	error
	text, Advice string
}

func (e *Error) Unwrap() error { return e.error }

// Print reports an error, unless another process has.
func Print(w io.Writer, err error) {
	var plain *Error
	switch {
	case err == nil, errors.As(err, new(*failure.Said)):
	case !errors.As(err, &plain):
		text := failure.Text(err)
		if text == context.Canceled.Error() { // nothing else was said of it
			text = "interrupted"
		}
		_, _ = io.WriteString(w, "nvmeof: "+text+"\n")
	case plain.text != "":
		_, _ = io.WriteString(w, plain.text+"\n")
		if plain.Advice != "" && terminal.Is(w) {
			_, _ = io.WriteString(w, plain.Advice+"\n")
		}
	}
}

// Failure is a command's failure as nvme-cli reports it: a line of the standard
// error, or an object on the standard output with -o json.
func Failure(cmd *cobra.Command, err error, advise func(capsule.Status) string) error {
	var status *host.StatusError
	var connect *failure.Connect
	if errors.As(err, new(*failure.Reported)) {
		return &Error{error: err}
	}
	if !errors.As(err, &status) || errors.As(err, &connect) {
		return err
	}
	if !inJSON(cmd) {
		return &Error{err, nvmecli.Status(status.Status), advise(status.Status)}
	}
	print := nvmecli.StatusJSON
	if strings.HasPrefix(cmd.Use, "get-feature ") {
		print = nvmecli.FeatureStatusJSON
	}
	return errors.Join(&Error{error: err}, print(cmd.OutOrStdout(), status.Status))
}

// InJSON is an error that a command ended with before it had answered: with -o json an object on the
// standard output, as a status is, so that whoever reads that has a document whatever goes wrong.
func InJSON(cmd *cobra.Command, err error) error {
	if err == nil || !inJSON(cmd) || errors.As(err, new(*Error)) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(&Error{error: err}, nvmecli.ErrorJSON(cmd.OutOrStdout(), failure.Text(err)))
}

func inJSON(cmd *cobra.Command) bool {
	format := cmd.Flags().Lookup("output-format")
	return format != nil && format.Value.String() == "json"
}
