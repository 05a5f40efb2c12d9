// Command coverage runs the tests of all packages, and checks how many of the statements of
// each package they execute, whichever package the test is in:
//
//	go run ./test/coverage                       # what is below its floor
//	go run ./test/coverage -v                    # all packages
//	go run ./test/coverage -profile cover.out    # and then: go tool cover -html=cover.out
//	go run ./test/coverage -test "-tags=verbs"   # with arguments of go test
//
// It fails where a test does, or where a package is below its floor. Floors, and the
// packages without one, each with a reason, are in floors.go.
//
// It counts what processes do that tests start from their own program. What a package does
// only in a child that is killed, or that may write no file, counts as never executed.
package main
