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

// An Error is printed without the program's name, as nvme-cli reports a status. If the text is empty, it has been
// reported already. The advice is printed on terminals only, since programs expect the output of nvme-cli.
type Error struct {
	error
	text, Advice string
}

func (e *Error) Unwrap() error { return e.error }

// Print prints an error, unless another process has printed it.
func Print(w io.Writer, err error) {
	var plain *Error
	switch {
	case err == nil, errors.As(err, new(*failure.Said)):
	case !errors.As(err, &plain):
		text := failure.Text(err)
		if text == context.Canceled.Error() { // there is no other text
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

// Failure converts a command's error to one that is reported as nvme-cli does: as a line of standard error, or with -o
// json as an object on standard output.
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

// InJSON handles an error that ended a command before it printed its result. With -o json it prints the error as an
// object on standard output, as for a status, so that the reader always receives a document.
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
