// Package demo is nvmeof demo: a target and a host on the loopback, what they say to each other,
// and what they do a second beside the same stores without the fabric and beside raw UDP.
package demo
