// Package sizes reads sizes in bytes as people write them on a command line.
package sizes
