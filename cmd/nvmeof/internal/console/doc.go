// Package console serves a target over TCP, to those who have a token: the API, and pages for browsers.
//
// A program sends its token with each request. A person enters it once, and has a session, which a
// cookie names that scripts do not see and other sites do not get to send. Sessions end with their
// token. Whatever the pages change they ask of the API in the name of the token, so that roles
// and the audit are in one place.
//
// A page is made in memory before any of it is sent: a client that reads slowly holds no lock.
package console
