package association

import "sync/atomic"

// A Bar keeps commands from a namespace that may be another than it was. The zero value
// lets them pass. It is looked at for each command, by any goroutine.
type Bar struct{ why atomic.Pointer[error] }

// Set keeps commands away from now on.
func (b *Bar) Set(why error) { b.why.Store(&why) }

// Lift lets commands pass.
func (b *Bar) Lift() { b.why.Store(nil) }

// Err is why nothing may be sent, nil where it may.
func (b *Bar) Err() error {
	if why := b.why.Load(); why != nil {
		return *why
	}
	return nil
}
