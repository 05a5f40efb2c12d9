package tidy

import (
	"bytes"
	"fmt"
)

// localPaths are directories that exist only on some machine. They are concatenated here so that this file does not
// contain them.
var localPaths = []string{"/wo" + "rk/", "/ro" + "ot/"}

// localPathsIn finds such directories in a text file of any kind.
func localPathsIn(name string, text []byte) (findings []string) {
	for _, p := range localPaths {
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(p))
			if i < 0 {
				break
			}
			at += i
			// A match in the middle of a longer name is allowed.
			if at == 0 || !isPathByte(text[at-1]) {
				line := 1 + bytes.Count(text[:at], []byte("\n"))
				findings = append(findings, fmt.Sprintf("%s:%d: path %s of somebody's machine", name, line, p))
			}
			at += len(p)
		}
	}
	return findings
}

func isPathByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || bytes.IndexByte([]byte("._-*}$"), b) >= 0
}
