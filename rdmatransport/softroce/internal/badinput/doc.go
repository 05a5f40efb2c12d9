// Package badinput tests how a target answers malformed, hostile or unlucky connection requests and packets. A raw
// peer, the gremlin, assembles every datagram itself. Each test sends one kind of bad input to a softroce device that
// serves NVMe. It then requires the right answer, that a counter was incremented, that another host's I/O continues,
// and that no resources are left.
package badinput
