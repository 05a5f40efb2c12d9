// Package sealed is the form of what a target writes down to find again after a power
// failure: JSON in a record with a version and a checksum.
package sealed
