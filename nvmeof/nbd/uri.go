package nbd

import (
	"net/url"
	"strings"
)

// uri returns the NBD URI of an export on a Unix socket.
func uri(socket, name string) string {
	u := url.URL{Scheme: "nbd+unix", Host: "", Path: "/" + name, RawQuery: "socket=" + escape(socket)}
	return "nbd+unix://" + u.EscapedPath() + "?" + u.RawQuery
}

// escape escapes a path, except for its slashes, which stay readable. A query ends at other characters that a path may
// contain, and a qemu option at a comma.
func escape(path string) string {
	return strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(path))
}
