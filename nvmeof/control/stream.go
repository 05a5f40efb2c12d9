package control

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A stream is a route whose answer continues until the client disconnects or has received what it requested.
type stream struct {
	path, id, summary string
	content           string // media type
	answer            any    // value of the type of each line; nil: the answer is binary
	query             []streamOption
	serve             func(ctx context.Context, m *Manager, q url.Values, w *streamWriter) error
}

// A streamOption is an option of a stream.
type streamOption struct {
	name, kind, doc string                       // kind is string or integer
	check           func(value string) (ok bool) // nil: any text is valid
	want            string                       // what check requires
}

func streams() []stream { return []stream{captureStream(), traceStream()} }

func nqnOption(name, doc string) streamOption {
	return streamOption{name, "string", doc, func(v string) bool { _, err := nvmeof.AnyNQN(v); return err == nil }, "an NQN"}
}

func numberOption(name, doc string, most uint64) streamOption {
	return streamOption{name, "integer", doc, func(v string) bool {
		n, err := strconv.ParseUint(v, 10, 64)
		return err == nil && n <= most
	}, fmt.Sprintf("a number from 0 to %d", most)}
}

// secondsOption is the option that limits the duration of a stream.
func secondsOption() streamOption {
	return numberOption("seconds", "Maximum duration in seconds. Default: until the client disconnects.", 1<<31-1)
}

// number returns the value of an option that was checked.
func number(q url.Values, name string) int {
	n, _ := strconv.Atoi(q.Get(name))
	return n
}

// checkOptions returns an error if an option of a request is not valid.
func (s *stream) checkOptions(q url.Values) error {
	for name, values := range q {
		i := slices.IndexFunc(s.query, func(o streamOption) bool { return o.name == name })
		switch {
		case i < 0:
			return config.Problems{{Text: "unknown option " + nvmeof.Printable(name)}}
		case len(values) != 1 || s.query[i].check != nil && !s.query[i].check(values[0]):
			return config.Problems{{Text: "option " + name + " is given as " + nvmeof.Printable(values[len(values)-1]), Fix: "give " + cmp.Or(s.query[i].want, "it once")}}
		}
	}
	return nil
}

// lastWrite is the time limit for a write in progress when a stream ends.
const lastWrite = time.Second

// remoteWrite is the time limit for each write to a client on a network.
const remoteWrite = 30 * time.Second

// handle serves the stream as long as may permits it. An error after the first write ends the stream.
func (s *stream) handle(m *Manager, remote bool, may func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			err = config.Problems{{Text: "options: " + err.Error()}}
		} else {
			err = s.checkOptions(q)
		}
		count := func(code int) { m.requests.count(Request{http.MethodGet, s.path, code}) }
		if err != nil {
			count(writeError(w, err))
			return
		}
		ctx := r.Context()
		if n := number(q, "seconds"); n > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*time.Second)
			defer cancel()
		}
		out := &streamWriter{to: w, control: http.NewResponseController(w), content: s.content, remote: remote, may: may}
		_ = out.control.SetReadDeadline(time.Time{}) // the client sends nothing more
		defer context.AfterFunc(ctx, func() {        // only then: nobody waits at the end for a client that receives nothing
			_ = out.control.SetWriteDeadline(time.Now().Add(lastWrite))
		})()
		if err := s.serve(ctx, m, q, out); err != nil && !out.begun {
			count(writeError(w, err))
			return
		}
		if r.Context().Err() != nil { // the target ends the stream, not the client or its limits
			w.Header().Set(endedTrailer, whyEnded(m))
		}
		count(http.StatusOK)
	}
}

// endedTrailer is the trailer of a stream that the target has ended. It says why.
const endedTrailer = "Nvmeof-Ended"

func whyEnded(m *Manager) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "the target was handed over to another process: repeat the request to follow that one"
	}
	return "the target is stopping"
}

// A streamWriter sends data without delay.
type streamWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	content string
	begun   bool
	remote  bool         // the client is on a network
	may     func() error // returns an error if the client may no longer have the stream
}

// write sends b. If b is empty, it still tells the client that the stream has begun.
func (w *streamWriter) write(b []byte) error {
	if err := w.may(); err != nil {
		return err
	}
	if !w.begun {
		w.begun = true
		w.to.Header().Set("Content-Type", w.content)
		w.to.Header().Set("Cache-Control", "no-store")
		w.to.Header().Set("Trailer", endedTrailer)
		w.to.WriteHeader(http.StatusOK)
	}
	if w.remote { // a client that receives nothing for so long is gone
		_ = w.control.SetWriteDeadline(time.Now().Add(remoteWrite))
	}
	if _, err := w.to.Write(b); err != nil {
		return err
	}
	return w.control.Flush()
}

func (s *stream) pattern() string { return "GET " + s.path }
