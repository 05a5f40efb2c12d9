// Package targetcommand has nvmeof target: one daemon, which follows a document that a file or flags
// make ([Daemon]), and the commands about such documents: check, apply, import, export and the like.
package targetcommand
