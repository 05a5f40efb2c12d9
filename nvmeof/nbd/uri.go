package nbd

import "net/url"

// uri names an export behind a unix socket.
func uri(socket, name string) string {
	u := url.URL{Scheme: "nbd+unix", Host: "", Path: "/" + name, RawQuery: "socket=" + escape(socket)}
	return "nbd+unix://" + u.EscapedPath() + "?" + u.RawQuery
}

// escape leaves the slashes of a path as people know them.
func escape(path string) string {
	return (&url.URL{Path: path}).EscapedPath()
}
