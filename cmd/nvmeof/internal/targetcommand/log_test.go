package targetcommand

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestLogControls: what a terminal obeys is escaped in both formats, wherever it comes from.
func TestLogControls(t *testing.T) {
	for _, format := range []string{"console", "json"} {
		var out bytes.Buffer
		log, err := NewLog(format, "info", &out, false)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("a\u009b1mb", zap.String("export", "/c\u0085d"))
		if text := out.String(); !strings.Contains(text, `a\u009b1mb`) || !strings.Contains(text, `/c\u0085d`) {
			t.Errorf("%s: %q", format, text)
		}
	}
}
