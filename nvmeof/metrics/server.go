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
)

// Connections at a time, and those of one address: nobody keeps the program out that collects the metrics; see connlimit.
const (
	maxConnections = 64
	maxOfAddress   = 16
)

// Listen takes an address, ADDR:PORT, for [Serve].
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

// Serve serves a [Handler] by HTTP, without authentication, until the function is called that it
// returns, which closes the listener. It bounds what clients may send, how many there are, and
// how long they take; log may be nil.
func Serve(l net.Listener, h http.Handler, log *zap.Logger) (end func()) {
	if log == nil {
		log = zap.NewNop()
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 20 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(log),
	}
	ended := make(chan struct{})
	go func() { // ends with Close
		defer close(ended)
		if err := s.Serve(connlimit.New(l, maxConnections, maxOfAddress)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", zap.Error(err))
		}
	}()
	return func() { // hosts may wait for that: see control.Export
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		<-ended
	}
}
