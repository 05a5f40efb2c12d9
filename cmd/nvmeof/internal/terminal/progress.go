package terminal

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// smallTransfer is over before anybody looks.
const smallTransfer = 16 << 20

// A Progress shows a terminal how far a long transfer is; nil shows nothing.
type Progress struct{ bar *progressbar.ProgressBar }

// NewProgress is a bar of so many bytes; nil where nobody would look.
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

// Add moves it by so many bytes.
func (p *Progress) Add(n int) {
	if p != nil {
		_ = p.bar.Add(n)
	}
}

// End takes the bar off the terminal.
func (p *Progress) End() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
