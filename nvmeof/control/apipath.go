package control

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Path returns the path of a route, with its parts escaped. It also escapes the parts "." and "..", which can be
// NQNs of hosts: a client would remove them otherwise (RFC 3986, 5.2.4).
func Path(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		switch escaped[i] = url.PathEscape(p); p {
		case ".", "..":
			escaped[i] = strings.ReplaceAll(p, ".", "%2E")
		}
	}
	return "/v1/" + strings.Join(escaped, "/")
}

// direct refuses paths with a part that is empty, "." or "..". [http.ServeMux] would redirect to the path without
// it, and many clients follow that with the same method: a request to remove host ".." of a subsystem would remove
// the subsystem.
func direct(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		path := strings.TrimSuffix(strings.TrimPrefix(q.URL.EscapedPath(), "/"), "/") // a slash at the end is harmless
		for part := range strings.SplitSeq(path, "/") {
			if part == "" && path != "" || part == "." || part == ".." {
				refuse(w, q, config.Problems{{Text: "a segment of the path is empty, . or ..", Fix: "add the missing name; write a dot in such a name as %2E"}})
				return
			}
		}
		next.ServeHTTP(w, q)
	})
}
