package signals

import (
	"context"
	"os/signal"

	"golang.org/x/sys/unix"
)

// OwnHangup is the annotation of a command that does something of its own on SIGHUP.
const OwnHangup = "hangup"

// Survives reports whether the process was started to survive SIGHUP, as by nohup(1). It has to be
// asked before anything waits for the signal.
func Survives() bool { return signal.Ignored(unix.SIGHUP) }

// EndOnHangup is a context that ends when the terminal is closed, unless the process was
// started to survive that. The signal may come several times, from the shell and the
// kernel. Who reads what the process prints may have gone with the terminal: that fails
// from then on, and does not end the process.
func EndOnHangup(ctx context.Context) context.Context {
	if Survives() {
		return ctx
	}
	ctx, end := context.WithCancel(ctx)
	On(unix.SIGHUP, func() { // until the process ends
		signal.Ignore(unix.SIGPIPE)
		end()
	})
	return ctx
}
