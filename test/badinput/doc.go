// Package badinput checks that each row of README.md, the catalogue of malformed, hostile and unlucky input, has a
// test. Tests everywhere cite these rows. The tests that assemble every datagram by hand are in
// rdmatransport/softroce/internal/badinput.
package badinput
