package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// newLog writes for people on a terminal, else JSON.
func newLog(format, level string, out io.Writer) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, usage("--log-level: %v", err)
	}
	console := format == "console" || format == "auto" && isTerminal(out)
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	var enc zapcore.Encoder
	switch {
	case console:
		enc = zapcore.NewConsoleEncoder(cfg)
	case format == "json" || format == "auto":
		enc = zapcore.NewJSONEncoder(cfg)
	default:
		return nil, usage("--log-format %s: it is auto, console or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(out)), lvl)), nil
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
