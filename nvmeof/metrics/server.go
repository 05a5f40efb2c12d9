package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/connlimit"
	"github.com/nvmeof-go/nvmeof/internal/loglimit"
)

// Limits of connections, in total and of one address. No single client can keep the collecting program out; see
// connlimit.
const (
	maxConnections = 64
	maxOfAddress   = 16
)

// Listen listens at an address, ADDR:PORT, for [Serve].
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			err = fmt.Errorf("%w: another program uses it; choose another port", err)
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			err = fmt.Errorf("%w: it is not an address of this machine", err)
		}
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return l, nil
}

// Serve serves a [Handler] over HTTP, without authentication. The function that it returns stops the server and
// closes the listener. The number of clients, the size of their requests and the time of each are limited. log may
// be nil.
func Serve(l net.Listener, h http.Handler, log *zap.Logger) (end func()) {
	if log == nil {
		log = zap.NewNop()
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 20 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: loglimit.HTTP(log, "metrics"),
	}
	ended := make(chan struct{})
	go func() { // ends with Close
		defer close(ended)
		if err := s.Serve(connlimit.New(l, maxConnections, maxOfAddress)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", zap.Error(err))
		}
	}()
	return func() { // hosts may be waiting meanwhile: see control.Export
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		<-ended
	}
}
