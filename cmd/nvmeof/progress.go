package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// smallTransfer is over before anybody looks.
const smallTransfer = 16 << 20

// progress shows a terminal how far a long transfer is; nil shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string, size int) *progress {
	if size < smallTransfer || !isTerminal(w) {
		return nil
	}
	return startProgress(w, what, size)
}

func startProgress(w io.Writer, what string, size int) *progress {
	return &progress{progressbar.NewOptions(size,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

func (p *progress) add(n int) {
	if p != nil {
		_ = p.bar.Add(n)
	}
}

// end takes the bar off the terminal.
func (p *progress) end() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
