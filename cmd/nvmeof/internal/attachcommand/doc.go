// Package attachcommand is nvmeof attach: the namespaces of one subsystem, over one or several
// paths, as disks of this machine on one NBD socket.
package attachcommand
