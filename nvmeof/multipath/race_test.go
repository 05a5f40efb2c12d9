//go:build race

package multipath

const raceEnabled = true
