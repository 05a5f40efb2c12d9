package loglimit

import (
	"bytes"
	"log"
	"strings"
	"time"

	"go.uber.org/zap"
)

// perMinute is how many lines of each kind an HTTP server writes in a minute. While descriptors are short, for example,
// it fails to accept once a second, for as long as that lasts.
const perMinute = 4

// HTTP returns the ErrorLog of an HTTP server, whose name begins each line. What any client can cause, as by a TLS
// handshake that it does not finish, has debug level.
func HTTP(l *zap.Logger, name string) *log.Logger {
	h := &httpLog{log: l, name: name, kinds: []*kind{
		{begins: "http: panic serving", write: l.Error},
		{begins: "http: Accept error", write: l.Warn},
		{begins: "error gathering metrics", write: l.Warn}, // of promhttp
	}}
	for _, k := range h.kinds {
		k.limit.Lines, k.limit.Period = perMinute, time.Minute
	}
	return log.New(h, "", 0)
}

type httpLog struct {
	log   *zap.Logger
	name  string
	kinds []*kind
}

// A kind of lines is not for debugging alone.
type kind struct {
	begins string
	write  func(string, ...zap.Field)
	limit  Limit
}

// Write implements io.Writer for a log.Logger, which calls it once for each message.
func (h *httpLog) Write(b []byte) (int, error) {
	msg := string(bytes.TrimSpace(b))
	for _, k := range h.kinds {
		if strings.HasPrefix(msg, k.begins) {
			k.limit.Write(k.write, h.name+": "+msg, nil)
			return len(b), nil
		}
	}
	h.log.Debug(h.name + ": " + msg)
	return len(b), nil
}
