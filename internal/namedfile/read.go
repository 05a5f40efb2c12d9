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

// A wait says how long to wait for a file.
type wait struct {
	whole time.Duration // in all; 0: as long as the context
	first time.Duration // for a writer of a pipe; 0: as long as whole
}

// readLimits are the limits of [Read].
var readLimits = wait{30 * time.Second, 5 * time.Second}

// A TooLongError says that a file has more bytes than the limit.
type TooLongError struct {
	Name  string
	Limit int64
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s is longer than %d bytes: is it the right file?", e.Name, e.Limit)
}

// errNobody says that a pipe has no writer.
var errNobody = errors.New("it is a pipe without a writer")

// Read reads a file of at most limit bytes, for at most 30 seconds and until ctx ends. A pipe is read to its end. The
// error for a longer file is a [TooLongError], any other error an [fs.PathError].
func Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	return read(ctx, name, func(f io.Reader) ([]byte, error) { return bounded(name, f, limit) }, readLimits)
}

// Fill reads the first bytes of a file, or of in if name is empty, into b, until ctx ends. Fewer than len(b) bytes are
// an error as from [io.ReadFull]: [io.EOF] if there are none, else [io.ErrUnexpectedEOF].
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
		ctx, cancel = context.WithTimeoutCause(ctx, w.whole, fmt.Errorf("it could not be read to its end within %v", w.whole))
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

// ReadFrom reads from an open file, such as standard input, to its end: at most limit bytes, and until ctx ends. The
// name is for errors.
func ReadFrom(ctx context.Context, name string, from io.Reader, limit int64) ([]byte, error) {
	return within(ctx, func() ([]byte, error) { return bounded(name, from, limit) })
}

// within runs f until ctx ends. It does not wait for f after that.
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

// file opens and reads the file. Opening a pipe does not wait for a writer: that wait is done here, where it can be
// ended.
func (r *reader) file(ctx context.Context) ([]byte, error) {
	f, err := os.OpenFile(r.name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })() // for a file that supports deadlines
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
		time.Sleep(10 * time.Millisecond) // the kernel does not report the first writer
	}
}

// Compare reports whether the content of a file is exactly text.
func Compare(ctx context.Context, name string, text []byte) (bool, error) {
	old, err := Read(ctx, name, int64(len(text)))
	var long *TooLongError
	if errors.As(err, &long) {
		return false, nil
	}
	return err == nil && bytes.Equal(old, text), err
}
