// Package sealed implements the format of the files that a target saves to survive a power failure: JSON in a
// record with a version and a checksum.
package sealed
