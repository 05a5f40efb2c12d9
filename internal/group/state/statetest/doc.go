// Package statetest is the test suite for stores of package state, with a linearizability checker for histories, which
// tests with faults use too.
package statetest
