package association

import "sync/atomic"

// A Bar blocks commands to a namespace whose identifier may belong to another namespace now. The zero value lets them
// pass. It is checked for each command, from any goroutine.
type Bar struct{ why atomic.Pointer[error] }

// Set blocks commands from now on; why is their error.
func (b *Bar) Set(why error) { b.why.Store(&why) }

// Lift lets commands pass again.
func (b *Bar) Lift() { b.why.Store(nil) }

// Err returns why commands are blocked, or nil if they may be sent.
func (b *Bar) Err() error {
	if why := b.why.Load(); why != nil {
		return *why
	}
	return nil
}
