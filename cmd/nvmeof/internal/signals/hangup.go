package signals

import (
	"context"
	"os/signal"

	"golang.org/x/sys/unix"
)

// OwnHangup is the annotation of a command that handles SIGHUP itself.
const OwnHangup = "hangup"

// Survives reports whether the process was started to survive SIGHUP, as by nohup(1). It must be called before the
// signal is handled.
func Survives() bool { return signal.Ignored(unix.SIGHUP) }

// EndOnHangup returns a context that ends when the terminal is closed, unless the process was started to survive that.
// The signal may arrive several times, from the shell and the kernel. The reader of the process's output may have
// ended with the terminal: writes fail from then on, and do not end the process.
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
