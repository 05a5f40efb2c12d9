package targetcommand

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// NewLog writes for people, or JSON; where the format is auto, for people on a terminal.
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
		return nil, failure.Usagef("--log-format %s: it is auto, console or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(out)), lvl)), nil
}
