// Package loopback finds addresses of 127/8 that nobody has: each RoCEv2 endpoint is one
// address, so that those of one machine need one each.
package loopback
