package terminal

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// smallTransfer is the size below which no progress is shown, since the transfer is over at once.
const smallTransfer = 16 << 20

// A Progress shows the progress of a long transfer on a terminal; nil shows nothing.
type Progress struct{ bar *progressbar.ProgressBar }

// NewProgress returns the Progress of a transfer of size bytes; nil if w is not a terminal or the transfer is small.
func NewProgress(w io.Writer, what string, size int) *Progress {
	if size < smallTransfer || !Is(w) {
		return nil
	}
	return startProgress(w, what, size)
}

func startProgress(w io.Writer, what string, size int) *Progress {
	return &Progress{progressbar.NewOptions(size,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

// Add adds n bytes.
func (p *Progress) Add(n int) {
	if p != nil {
		_ = p.bar.Add(n)
	}
}

// End removes the bar from the terminal.
func (p *Progress) End() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
