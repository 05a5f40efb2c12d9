package file

import (
	"os"

	"github.com/nvmeof-go/nvmeof/backend/internal/uring"
)

// TryURing creates an io_uring with the settings of stores and closes it. The error says why [EngineAuto] falls back to
// [EngineThreads] on this machine.
func TryURing() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := uring.New(uring.Config{Entries: 4, File: int(f.Fd())})
	if err != nil {
		return err
	}
	return r.Close()
}
