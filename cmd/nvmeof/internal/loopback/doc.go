// Package loopback finds addresses of the loopback that nobody has: each RoCEv2 endpoint is one
// address, so that those of one machine need one each.
package loopback
