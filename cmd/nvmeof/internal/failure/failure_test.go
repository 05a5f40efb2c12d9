package failure

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestFailures(t *testing.T) {
	var use Usage
	if err := Usagef("--port %d", 0); !errors.As(err, &use) || err.Error() != "--port 0" {
		t.Errorf("%v", err)
	}
	if err := error(&Connect{Err: io.EOF}); !errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Errorf("%v", err)
	}
	if errors.Is(Usage{Err: io.EOF}, io.EOF) {
		t.Error("a mistake is judged by its cause")
	}
}

func TestNames(t *testing.T) {
	if got := DidYouMean("tradr", []string{"nqn", "traddr"}); got != "; did you mean traddr?" {
		t.Errorf("%q", got)
	}
	if got := DidYouMean("completely-else", []string{"nqn"}); got != "" {
		t.Errorf("%q", got)
	}
	var cmd cobra.Command
	cmd.Flags().Bool("shown", false, "")
	cmd.Flags().Bool("hidden", false, "")
	_ = cmd.Flags().MarkHidden("hidden")
	if got := FlagNames(&cmd); !slices.Equal(got, []string{"shown"}) {
		t.Errorf("%v", got)
	}
}

func TestPick(t *testing.T) {
	formats := map[string]int{"normal": 1, "json": 2}
	if got, err := Pick("json", formats); got != 2 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	var use Usage
	const want = "--output-format jsn: want one of json, normal; did you mean json?"
	if _, err := Pick("jsn", formats); !errors.As(err, &use) || err.Error() != want {
		t.Errorf("%v", err)
	}
}
