// Package lending handles controllers that one process holds for another. A RoCE endpoint is one address of the
// machine. A process that wants to connect from an address that belongs to another process asks that process to
// connect ([LenderOf]), and keeps the controller as a [Loan]. Each side watches for the end of the other
// ([Processes]): then the borrower connects again, and the lender takes the loan back.
package lending
