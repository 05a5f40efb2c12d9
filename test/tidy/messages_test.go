package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshooting: the messages that docs/troubleshooting.md explains occur in the program word for word. The page
// may shorten them with an ellipsis.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range sources(t) {
		if !f.isTest() {
			source.Write(f.text)
		}
	}
	said := strings.ToLower(source.String()) // a message may begin a sentence
	messages := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			for part := range strings.SplitSeq(span[1], "…") {
				if part = strings.ToLower(strings.Trim(part, " ")); !strings.Contains(said, part) {
					t.Errorf("docs/troubleshooting.md explains %q, and the program says no %q", span[1], part)
				}
			}
			messages++
		}
	}
	if messages < 60 {
		t.Errorf("%d messages found on the page", messages)
	}
}
