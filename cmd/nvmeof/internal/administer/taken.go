package administer

import (
	"context"
	"errors"
	"time"
)

// takeTime is how long the reader of a command's output may take for the rest of it when the command ends.
const takeTime = time.Second

var errNotTaken = errors.New("the output is incomplete: its reader, or its file system, accepted nothing for a second")

// whileTaken runs f, which writes output until ctx ends. After that it waits at most takeTime for f, since the reader
// of the output may have stopped reading.
func whileTaken(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }() // ends when its output takes what is written, or with the process
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(takeTime):
		return errNotTaken
	}
}
