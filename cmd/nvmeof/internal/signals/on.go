package signals

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// On calls act on each arrival of the signal until forget is called.
func On(sig unix.Signal, act func()) (forget func()) {
	came, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(came, sig)
	var wait sync.WaitGroup
	wait.Go(func() { // ends when forget closes done
		for {
			select {
			case <-came:
				act()
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(came)
		close(done)
		wait.Wait()
	}
}
