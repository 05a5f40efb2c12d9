// Package administer has the commands that look at and change a running target over its
// control socket: subsystem, namespace, listener, host, controller, reservation,
// ana-group, referral, key and ls; and those that follow it: capture and trace.
package administer
