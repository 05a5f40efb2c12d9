package controls

import "testing"

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain é \u00a0 \u2028": "plain é \u00a0 \u2028", "\u009b31m\u007f": `\u009b31m\u007f`, "a\u0080\u0085\u009fb": `a\u0080\u0085\u009fb`,
		"\xc2": "\xc2", "\x9b": "\x9b", "\xe2\x82\x9b": "\xe2\x82\x9b",
	} {
		if got := string(Escape([]byte(text))); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
