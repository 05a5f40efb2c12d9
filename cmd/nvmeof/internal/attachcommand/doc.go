// Package attachcommand implements nvmeof attach, which publishes the namespaces of one subsystem, over one or several
// paths, as disks of this machine on one NBD socket.
package attachcommand
