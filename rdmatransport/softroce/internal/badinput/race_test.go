//go:build race

package badinput

const raceEnabled = true
