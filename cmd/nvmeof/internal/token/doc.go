// Package token has the tokens by which people and programs use a target over TCP: the file that
// keeps them by hash, the commands that change it, and who has failed too often.
//
// A token is random, and of 256 bits, so that one pass of SHA-256 hides it: there is nothing to
// guess. It is printed once, when it is made, and is in no file.
package token
