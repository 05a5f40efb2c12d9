// Package discover reads the logs of discovery controllers: of the one named on the command line, or of all that
// nvme-cli's files name, and of those to which they refer ([Survey]). It also implements the command nvmeof discover.
package discover
