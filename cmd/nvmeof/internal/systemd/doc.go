// Package systemd reports the state of the program to the service manager (sd_notify(3)).
package systemd
