package badinput

import (
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A loop owns one completion queue of a device and discards its completions.
type loop struct {
	cq    rdmatransport.CompletionQueue
	calls chan func() // closed to end the loop
	ended chan error
}

// startLoop creates the device's next completion queue and its loop.
func startLoop(d *softroce.Device) (*loop, error) {
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		return nil, err
	}
	l := &loop{cq: cq, calls: make(chan func(), 1), ended: make(chan error, 1)}
	go l.run() // ends when calls is closed
	return l, nil
}

func (l *loop) run() {
	completions := make([]rdmatransport.Completion, 16)
	for {
		select {
		case f, ok := <-l.calls:
			if !ok {
				l.ended <- l.cq.Close()
				return
			}
			f()
		default:
		}
		if n := l.cq.Poll(completions); n > 0 {
			l.cq.Flush()
			continue
		}
		l.cq.Flush()
		l.cq.Wait(l.cq.Due())
	}
}

// call runs f on the goroutine that polls the completion queue, and waits for it.
func (l *loop) call(f func()) {
	done := make(chan struct{})
	l.calls <- func() {
		f()
		close(done)
	}
	l.cq.Wake()
	<-done
}

func (l *loop) close() error {
	close(l.calls)
	l.cq.Wake()
	return <-l.ended
}
