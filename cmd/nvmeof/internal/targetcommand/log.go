package targetcommand

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/controls"
)

// NewLog returns a log in text or JSON format; the format "auto" is text on a terminal.
func NewLog(format, level string, out io.Writer, onTerminal bool) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, failure.Usagef("--log-level: %v", err)
	}
	console := format == "console" || format == "auto" && onTerminal
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	var enc zapcore.Encoder
	switch {
	case console:
		enc = zapcore.NewConsoleEncoder(cfg)
	case format == "json" || format == "auto":
		enc = zapcore.NewJSONEncoder(cfg)
	default:
		return nil, failure.Usagef("--log-format %s: want auto, console or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(escaping{out})), lvl)), nil
}

// An escaping is a writer for the log that escapes control sequences of terminals.
type escaping struct{ to io.Writer }

func (e escaping) Write(entry []byte) (int, error) {
	if _, err := e.to.Write(controls.Escape(entry)); err != nil {
		return 0, err
	}
	return len(entry), nil
}
