// Package badinput is the index of what malformed, hostile or unlucky input does: it
// finds the test of each row. Those that assemble every datagram by hand are in
// rdmatransport/softroce/internal/badinput.
//
// README.md is the catalogue of bad input, whose rows tests everywhere cite.
package badinput
