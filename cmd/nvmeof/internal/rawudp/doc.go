// Package rawudp measures the cost of UDP alone on this machine, for comparison with the fabric, with datagrams of the
// same size.
package rawudp
