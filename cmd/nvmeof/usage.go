package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// helpFails has help written in one piece. It returns a function that returns the error of the write, which cobra
// ignores.
func helpFails(root *cobra.Command) (failed func() error) {
	var err error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		_, err = out.Write(text.Bytes())
	})
	return func() error { return err }
}

// unknownVerb returns the error for a verb that an object does not have. cobra would print help as if it had been
// requested.
func unknownVerb(root *cobra.Command, args []string) error {
	root.InitDefaultCompletionCmd()
	if len(args) > 0 && args[0] == "help" {
		return unknownTopic(root, args[1:])
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Runnable() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	return usageError{Err: seeHelp(cmd, fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath()))}
}

// unknownTopic returns the error for help about a command that does not exist, which cobra does not treat as a
// failure.
func unknownTopic(root *cobra.Command, topic []string) error {
	root.InitDefaultHelpCmd()
	topic = slices.DeleteFunc(slices.Clone(topic), func(word string) bool { return strings.HasPrefix(word, "-") })
	cmd, rest, err := root.Find(topic)
	switch {
	case err != nil:
		return usageError{Err: seeHelp(cmd, err)}
	case len(rest) > 0 && cmd.HasSubCommands():
		return usageError{Err: seeHelp(cmd, fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath()))}
	}
	return nil
}

// seeHelp adds to a usage error what may have been meant, and where to read more.
func seeHelp(cmd *cobra.Command, err error) error {
	hint := ""
	var word string
	var want, got int
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = cmp.Or(wrongKind(invalid), err)
	} else if _, is := fmt.Sscanf(err.Error(), "accepts %d arg(s), received %d", &want, &got); is == nil {
		err = miscounted(cmd, want, got)
	} else if _, is := fmt.Sscanf(err.Error(), "unknown command %q", &word); is == nil {
		hint = meant(cmd, word)
	} else if name, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
		hint = failure.DidYouMean(name, failure.FlagNames(cmd))
	}
	return fmt.Errorf("%w%s; see %s --help", err, hint, cmd.CommandPath())
}

// otherWords maps verbs of other programs to their equivalents here.
var otherWords = map[string]map[string]string{
	"nvmeof":           {"status": "ls", "show": "ls", "health": "ls", "log": "events", "stats": "top", "metrics": "target --metrics ADDR:PORT"},
	"nvmeof namespace": {"resize": "set NSID --size SIZE", "delete": "remove", "create": "add", "modify": "set"},
	"nvmeof host":      {"delete": "remove", "create": "add", "modify": "set"},
	"nvmeof subsystem": {"delete": "remove", "create": "add", "modify": "set"},
}

// meant returns a suggestion for a word that is not a verb of a command.
func meant(cmd *cobra.Command, word string) string {
	if here := otherWords[cmd.CommandPath()][word]; here != "" {
		return "; it is " + cmd.CommandPath() + " " + here
	}
	if cmd.Flags().Lookup("config") != nil && strings.Contains(word, ".") { // a document, in the form in which the target's verbs take it
		return "; to start a target with a configuration: --config " + word
	}
	return failure.DidYouMean(word, commandNames(cmd))
}

// wrongKind rewrites the error of an invalid value, in which Go's packages name their functions. It returns nil if the
// error is that of the flag itself.
func wrongKind(e *pflag.InvalidValueError) error {
	want := ""
	var number *strconv.NumError
	switch errors.As(e, &number); {
	case strings.HasPrefix(e.Unwrap().Error(), "--"): // it names the flag
		return e.Unwrap()
	case e.GetFlag().Value.Type() == "duration" && strings.HasPrefix(e.Unwrap().Error(), "time: "):
		want = "a duration, as 5s or 250ms"
	case number == nil:
		return nil
	case e.GetFlag().Value.Type() == "bool":
		want = "true or false"
	case errors.Is(number, strconv.ErrRange):
		want = "a smaller number"
	default:
		want = "a whole number"
	}
	return fmt.Errorf("--%s %s: want %s", e.GetFlag().Name, nvmeof.Printable(e.GetValue()), want)
}

// miscounted returns the error for a wrong number of arguments, with the names that the usage gives them. Flags in the
// usage are not arguments; required ones are named too.
func miscounted(cmd *cobra.Command, want, got int) error {
	names, flags := usageWords(cmd)
	var missing, possible []string
	for _, f := range flags {
		switch {
		case f.given:
		case f.needed:
			missing = append(missing, f.text)
		default:
			possible = append(possible, f.text)
		}
	}
	if got < want && want <= len(names) {
		return errors.New(areMissing(append(names[got:want:want], missing...)))
	}
	text := fmt.Sprintf("takes %s, but got %d arguments", strings.Join(names, " and "), got)
	switch {
	case len(missing) > 0:
		text += "; " + areMissing(missing)
	case len(possible) > 0:
		text += "; other values are given with " + strings.Join(possible, " or ")
	}
	return errors.New(text)
}

func areMissing(names []string) string {
	if len(names) == 1 {
		return names[0] + " is missing"
	}
	return strings.Join(names, " and ") + " are missing"
}

// A usageFlag is a flag in the usage of a command.
type usageFlag struct {
	text          string // with the name of its value
	needed, given bool
}

// usageWords returns the arguments and the flags in the usage of a command. Those in brackets are optional.
func usageWords(cmd *cobra.Command) (arguments []string, flags []usageFlag) {
	words := strings.Fields(cmd.Use)[1:]
	depth := 0
	for i := 0; i < len(words); i++ {
		bare := strings.Trim(words[i], "[]()")
		inside := depth > 0 || strings.HasPrefix(words[i], "[")
		depth += strings.Count(words[i], "[") - strings.Count(words[i], "]")
		flag := lookupFlag(cmd, bare)
		switch {
		case bare == "|":
		case flag == nil:
			arguments = append(arguments, bare)
		default:
			f := usageFlag{bare, !inside, flag.Changed}
			if flag.NoOptDefVal == "" && i+1 < len(words) { // the next word is its value
				i++
				f.text += " " + strings.Trim(words[i], "[]()")
				depth -= strings.Count(words[i], "]")
			}
			flags = append(flags, f)
		}
	}
	return arguments, flags
}

// lookupFlag returns the flag that a word of the usage names, such as -n or --nqn, or nil.
func lookupFlag(cmd *cobra.Command, word string) *pflag.Flag {
	if name, long := strings.CutPrefix(word, "--"); long {
		return cmd.Flags().Lookup(name)
	}
	if letter, short := strings.CutPrefix(word, "-"); short && len(letter) == 1 {
		return cmd.Flags().ShorthandLookup(letter)
	}
	return nil
}

// commandNames returns the names and aliases of a command's verbs.
func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		names = append(append(names, c.Name()), c.Aliases...)
	}
	return names
}
