package failure

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// WithRemedy adds to a text that reports a lack of file descriptors the process's limit and how to raise it. Every
// line of a serving process, and the error of every command, passes through here.
func WithRemedy(text string) string {
	limit := "as many as its limit"
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
		limit = fmt.Sprint(l.Cur)
	}
	return withRemedy(text, "this process may have "+limit)
}

// Text returns the text of an error, with the remedy if this process has run out of descriptors.
func Text(err error) string {
	text := nvmeof.Concealed(err.Error())
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return WithRemedy(text)
	}
	return text
}

// RemedyAtTarget is WithRemedy for a text from a running target.
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
