// Package fabricoptions has the options of connections to controllers. One table, that of
// package hostconfig with the options that nvme-cli does not have ([All]), gives the flags of
// all commands, the options that one process hands to another, and the bounds of each.
//
// [Connection] is what a command says that ends by itself; [Held] is that of a connection
// which stays, and what happens when it is lost.
package fabricoptions
