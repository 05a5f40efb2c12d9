// Package loopback finds unused loopback addresses. A RoCEv2 endpoint is one address, so each endpoint on a machine
// needs its own.
package loopback
