// Command fuzz runs the fuzz targets of all packages, each for a short time:
//
//	go run ./test/fuzz                  # all, 2 s each
//	go run ./test/fuzz -each 1m         # all, a minute each
//	go run ./test/fuzz -run FuzzParse   # those whose names match
//	go run ./test/fuzz -for 3m -from 40 # as many as fit into 3 minutes, beginning with the 40th
//
// It prints a line for each target: the number of inputs that were run, and the number of those that reached new code.
// It builds the test program of each package once, where go test -fuzz builds it for each target. It keeps new inputs
// in the cache of go test -fuzz, so that the next run begins with them.
//
// It fails if a target fails. The failing input is then in testdata/fuzz of the package, and go test runs it from then
// on. It should also become a named row in a table of the package's tests.
package main
