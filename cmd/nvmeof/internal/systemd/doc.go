// Package systemd tells the service manager the state of the program (sd_notify(3)).
package systemd
