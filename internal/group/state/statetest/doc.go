// Package statetest is the suite that every store of package state passes, and a judge of
// histories, which tests of faults use too.
package statetest
