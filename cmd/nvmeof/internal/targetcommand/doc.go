// Package targetcommand implements nvmeof target: a daemon that follows a document from a file or from flags
// ([Daemon]), and the commands about such documents: check, apply, import, export and others.
package targetcommand
