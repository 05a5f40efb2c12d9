//go:build !race

package badinput

const raceEnabled = false
