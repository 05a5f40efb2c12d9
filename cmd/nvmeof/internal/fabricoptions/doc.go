// Package fabricoptions defines the options of connections to controllers. One table, that of package hostconfig with
// further options that nvme-cli does not have ([All]), defines the flags of all commands, the options passed between
// processes, and the bounds of each.
//
// [Connection] holds the options of a command that ends by itself; [Held] those of a connection that stays, and what
// happens when it is lost.
package fabricoptions
