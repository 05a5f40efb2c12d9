package hosts

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
)

// ConnectTime bounds how long one connection may take.
const ConnectTime = time.Minute

// connectPause is the first between attempts that may succeed by themselves.
const connectPause = time.Second

// A Retry is what happens between attempts of what may pass by itself. The first pause
// is connectPause, and each next one is twice as long, up to --reconnect-delay.
type Retry struct {
	h       *fabricoptions.Held
	warn    io.Writer
	start   time.Time
	pause   time.Duration
	printed string
}

// NewRetry begins to try.
func NewRetry(h *fabricoptions.Held, warn io.Writer) *Retry {
	return &Retry{h: h, warn: warn, start: time.Now(), pause: connectPause}
}

// Late reports whether another attempt would come too late.
func (r *Retry) Late() bool {
	return r.h.CtrlLoss >= 0 && time.Since(r.start)+r.pause > time.Duration(r.h.CtrlLoss)*time.Second
}

// Wait prints each obstacle, once, and pauses.
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
