package targetcommand

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestLogControls checks that control characters are escaped in both formats, wherever they come from.
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
