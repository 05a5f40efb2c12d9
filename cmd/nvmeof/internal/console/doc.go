// Package console serves a target over TCP to clients with a token: the API, and pages for browsers.
//
// A program sends its token with each request. A person enters it once and gets a session, identified by a cookie that
// scripts cannot read and other sites cannot have sent. A session ends with its token. Pages make all changes through
// the API on behalf of the token, so that roles and the audit are enforced in one place.
//
// A page is rendered in memory before any of it is sent, so that a slow client holds no lock.
package console
