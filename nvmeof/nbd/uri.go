package nbd

import (
	"net/url"
	"strings"
)

// uri names an export behind a unix socket.
func uri(socket, name string) string {
	u := url.URL{Scheme: "nbd+unix", Host: "", Path: "/" + name, RawQuery: "socket=" + escape(socket)}
	return "nbd+unix://" + u.EscapedPath() + "?" + u.RawQuery
}

// escape leaves the slashes of a path as people know them. A query ends at other characters that a path may
// have, and an option of qemu's at a comma.
func escape(path string) string {
	return strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(path))
}
