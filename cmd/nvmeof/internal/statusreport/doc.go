// Package statusreport reports the status with which a controller rejected a command as nvme-cli does, with advice for
// people at a terminal.
package statusreport
