// Package rawudp measures what UDP alone costs on this machine, with datagrams as large as
// those of the fabric, which is compared with that.
package rawudp
