// Package token implements the tokens with which people and programs access a target over TCP: the file that keeps
// their hashes, the commands that change it, and the limit on failed attempts.
//
// A token has 256 random bits. It cannot be guessed, so a single pass of SHA-256 is enough to hide it. It is printed
// once, when it is created, and is in no file.
package token
