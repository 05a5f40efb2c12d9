// Package demo implements nvmeof demo: a target and a host on the loopback, their conversation, and their performance
// compared with the same stores without the fabric and with raw UDP.
package demo
