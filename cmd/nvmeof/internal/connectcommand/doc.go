// Package connectcommand implements the commands about controllers that stay connected: connect, connect-all,
// disconnect, disconnect-all and iopolicy.
package connectcommand
