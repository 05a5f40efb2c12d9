// Command fuzz runs the fuzz targets of all packages, each for a short time:
//
//	go run ./test/fuzz                  # all, 2 s each
//	go run ./test/fuzz -each 1m         # all, a minute each
//	go run ./test/fuzz -run FuzzParse   # those whose names match
//	go run ./test/fuzz -for 3m -from 40 # as many as 3 minutes have, from the 40th on
//
// It prints a line for each target: how many inputs it has run, and how many of them reached
// what none did before. It builds the test program of each package once, which go test -fuzz
// does for each target, and keeps those inputs where go test -fuzz does, so that the next
// run begins with them.
//
// It fails where a target does. The input is then in testdata/fuzz of the package, and go test
// runs it from then on; what it shows belongs into a table of the package's tests as a row
// with a name.
package main
