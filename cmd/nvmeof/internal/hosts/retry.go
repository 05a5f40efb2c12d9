package hosts

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
)

// ConnectTime limits how long one connection attempt may take.
const ConnectTime = time.Minute

// connectPause is the delay before the first retry.
const connectPause = time.Second

// A Retry paces the attempts of an operation whose failure may be temporary. The first delay is connectPause; each
// further one is twice as long, up to --reconnect-delay.
type Retry struct {
	h       *fabricoptions.Held
	warn    io.Writer
	start   time.Time
	pause   time.Duration
	printed string
}

// NewRetry starts the time that is allowed for all attempts.
func NewRetry(h *fabricoptions.Held, warn io.Writer) *Retry {
	return &Retry{h: h, warn: warn, start: time.Now(), pause: connectPause}
}

// Late reports whether the next attempt would come after that time.
func (r *Retry) Late() bool {
	return r.h.CtrlLoss >= 0 && time.Since(r.start)+r.pause > time.Duration(r.h.CtrlLoss)*time.Second
}

// Wait prints err unless it was printed last, and waits for the next attempt.
func (r *Retry) Wait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if text := err.Error(); text != r.printed {
		r.printed = text
		fmt.Fprintf(r.warn, "nvmeof: %s; still trying\n", text)
	}
	select {
	case <-time.After(r.pause):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.pause = min(2*r.pause, time.Duration(r.h.ReconnectDelay)*time.Second)
	return nil
}
