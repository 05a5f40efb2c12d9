package administer

import (
	"context"
	"errors"
	"time"
)

// takeTime is how long, once a command is to end, who reads its output may take for what is left.
const takeTime = time.Second

var errNotTaken = errors.New("the output is incomplete: its reader, or its file system, accepted nothing for a second")

// whileTaken runs f, which writes what comes until ctx ends. It does not wait for an output that takes
// nothing then.
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
