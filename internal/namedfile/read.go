package namedfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A wait is how long a file is waited for.
type wait struct {
	whole time.Duration // for all of it; 0: as long as the context
	first time.Duration // for somebody to write into a pipe; 0: as long as the whole
}

// readLimits is that of [Read].
var readLimits = wait{30 * time.Second, 5 * time.Second}

// A TooLongError is a file with more bytes than are read.
type TooLongError struct {
	Name  string
	Limit int64
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s is longer than %d bytes: is it the right file?", e.Name, e.Limit)
}

// errNobody says that a pipe stays empty.
var errNobody = errors.New("it is a pipe without a writer")

// Read reads a file of at most limit bytes, in at most 30 seconds, and not longer than
// ctx. A pipe is read to its end. The error of a longer file is a [TooLongError], every
// other a [fs.PathError].
func Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	return read(ctx, name, func(f io.Reader) ([]byte, error) { return bounded(name, f, limit) }, readLimits)
}

// Fill reads the first bytes of a file into b, or, if name is empty, of what is open
// already, for as long as ctx. Fewer than len(b) are an error as from [io.ReadFull]:
// [io.EOF] if there are none, else [io.ErrUnexpectedEOF].
func Fill(ctx context.Context, name string, in io.Reader, b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	some := func(f io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(f, int64(len(b)))) }
	var text []byte
	if name != "" {
		text, err = read(ctx, name, some, wait{})
	} else {
		text, err = within(ctx, func() ([]byte, error) { return some(in) })
	}
	n = copy(b, text)
	switch {
	case err != nil:
		return n, err
	case n == 0:
		return n, io.EOF
	case n < len(b):
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func read(ctx context.Context, name string, content func(io.Reader) ([]byte, error), w wait) ([]byte, error) {
	if w.whole > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, w.whole, fmt.Errorf("it has not been read to its end after %v", w.whole))
		defer cancel()
	}
	r := reader{name: name, content: content, first: w.first}
	text, err := within(ctx, func() ([]byte, error) { return r.file(ctx) })
	var long *TooLongError
	var known *fs.PathError
	if err == nil || errors.As(err, &long) || errors.As(err, &known) {
		return text, err
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: err}
}

// ReadFrom reads what is open already, as standard input is, to its end: at most limit
// bytes, for as long as ctx. The name is for errors.
func ReadFrom(ctx context.Context, name string, from io.Reader, limit int64) ([]byte, error) {
	return within(ctx, func() ([]byte, error) { return bounded(name, from, limit) })
}

// within runs f for as long as ctx. What f still does then, nobody waits for.
func within(ctx context.Context, f func() ([]byte, error)) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends when the file system has answered
		text, err := f()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return r.text, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// bounded reads to the end.
func bounded(name string, from io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &TooLongError{name, limit}
	}
	return text, err
}

// A reader reads one file.
type reader struct {
	name    string
	content func(io.Reader) ([]byte, error)
	first   time.Duration
}

// file opens and reads. Opening a pipe does not wait for its other end: that is done
// here, where it can be ended.
func (r *reader) file(ctx context.Context) ([]byte, error) {
	f, err := os.OpenFile(r.name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })() // of a file that can wait
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeNamedPipe == 0 {
		return r.content(f)
	}
	begin := time.Now()
	for {
		text, err := r.content(f)
		switch {
		case len(text) > 0 || err != nil:
			return text, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case r.first > 0 && time.Since(begin) > r.first:
			return nil, &fs.PathError{Op: "read", Path: r.name, Err: errNobody}
		}
		time.Sleep(10 * time.Millisecond) // the kernel does not tell of a first writer
	}
}

// Compare reports whether a file has that text and nothing else.
func Compare(ctx context.Context, name string, text []byte) (bool, error) {
	old, err := Read(ctx, name, int64(len(text)))
	var long *TooLongError
	if errors.As(err, &long) {
		return false, nil
	}
	return err == nil && bytes.Equal(old, text), err
}
