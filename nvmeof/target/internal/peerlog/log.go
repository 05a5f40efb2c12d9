package peerlog

import (
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/loglimit"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// A Log is a logger with limits for lines that a peer can cause.
type Log struct {
	*zap.Logger
	Events   *events.Log    // for events that an administrator looks up later; nil: none
	Troubles loglimit.Limit // limits errors
	Comings  loglimit.Limit // limits hosts that connect and disconnect, separately so that they do not suppress errors
}

// Maximum numbers of lines per second.
const (
	Troubles = 20
	Comings  = 100
)

// New returns a log with these limits.
func New(l *zap.Logger) *Log {
	return &Log{Logger: l, Troubles: loglimit.Limit{Lines: Troubles, Period: time.Second}, Comings: loglimit.Limit{Lines: Comings, Period: time.Second}}
}

// Trouble logs an error: the peer, the reason and the remedy.
func (l *Log) Trouble(msg string, fields ...zap.Field) { l.Troubles.Write(l.Warn, msg, fields) }
