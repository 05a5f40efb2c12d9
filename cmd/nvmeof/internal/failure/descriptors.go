package failure

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// WithRemedy adds to what is printed, where it says that there is no file descriptor left, how many
// there may be and how to have more. This is the one place for that: every line of a process that
// serves, and the error of every command, goes through here.
func WithRemedy(text string) string {
	limit := "as many as its limit"
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
		limit = fmt.Sprint(l.Cur)
	}
	return withRemedy(text, "this process may have "+limit)
}

// Text is what an error says, with the remedy where it is this process that has no descriptor left.
func Text(err error) string {
	text := nvmeof.Concealed(err.Error())
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return WithRemedy(text)
	}
	return text
}

// RemedyAtTarget is WithRemedy for what a running target says of itself.
func RemedyAtTarget(text string) string {
	return withRemedy(text, "as many as the process of the target may have")
}

func withRemedy(text, limit string) string {
	const wholeMachine = " in system"
	short := unix.EMFILE.Error()
	before, after, found := strings.Cut(text, short)
	switch {
	case !found:
		return text
	case strings.HasPrefix(after, wholeMachine): // ENFILE
		return before + short + wholeMachine + " (of the whole machine: sysctl fs.file-max, fs.file-nr)" + after[len(wholeMachine):]
	}
	return before + short + " (" + limit + ": start it with more, by ulimit -n, or LimitNOFILE= in its systemd unit)" + after
}
