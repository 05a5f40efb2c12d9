// Package lending is about controllers that one process holds for another. A RoCE endpoint is
// one address of the machine; a process that wants a connection from an address that another
// one has requests that to connect ([LenderOf]), and keeps the controller as a [Loan]. Each follows
// the end of the other ([Processes]): the borrower connects anew, the lender takes the loan back.
package lending
