// Command coverage runs the tests of all packages and checks what share of the statements of each package they execute.
// Tests of any package count:
//
//	go run ./test/coverage                       # packages below their floor
//	go run ./test/coverage -v                    # all packages
//	go run ./test/coverage -profile cover.out    # and then: go tool cover -html=cover.out
//	go run ./test/coverage -test "-tags=verbs"   # with arguments of go test
//
// It fails if a test fails or a package is below its floor. Floors, and the packages without a floor, each with a
// reason, are in floors.go.
//
// Processes that tests start from their own executable count too. Code that runs only in a child process that is
// killed, or that may not write files, counts as not executed.
package main
