package terminal

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	if NewProgress(&b, "write", 1<<30) != nil {
		t.Error("a bar without a terminal")
	}
	p := startProgress(&b, "write", 100)
	p.Add(60)
	p.End()
	if !strings.Contains(b.String(), "write") {
		t.Errorf("the bar is %q", b.String())
	}
	var none *Progress
	none.Add(1)
	none.End()
}
