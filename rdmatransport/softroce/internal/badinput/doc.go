// Package badinput proves what a target gives back for malformed, hostile or
// unlucky connection requests and packets. A raw peer, the gremlin, assembles
// every datagram itself. Each test sends one kind of bad input to a softroce
// device that serves NVMe, and then requires the right answer, a counter that
// moved, that another host's I/O goes on and that nothing is left behind.
package badinput
