// Package lending is about controllers that one process holds for another. A RoCE endpoint is
// one address of the machine; a process that wants a connection from an address that another
// one has requests that to connect ([OwnerOf]), keeps the controller as a [Loan], and follows the
// end of the other process ([Owners]).
package lending
