// Package administer implements the commands that show and change a running target over its control socket: subsystem,
// namespace, listener, host, controller, reservation, ana-group, referral, key and ls; and those that follow it:
// capture and trace.
package administer
