// Package discover reads the logs of discovery controllers: of the one that the command line
// names, or of all that the files of nvme-cli name and those to which they refer ([Survey]).
// It has the command nvmeof discover.
package discover
