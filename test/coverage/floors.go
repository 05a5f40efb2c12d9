package main

import "strings"

// Floors, in percent of the statements of a package.
const (
	engineFloor  = 95 // code that interprets every bit that a peer sends
	generalFloor = 85
	faceFloor    = 75 // code that only reads flags and prints, much of which is tested in guests
)

// engines lists the packages with the higher floor.
var engines = map[string]bool{
	"capsule":                              true,
	"internal/group":                       true,
	"nvmeof/auth":                          true,
	"rdmatransport/softroce/internal/cm":   true,
	"rdmatransport/softroce/internal/rc":   true,
	"rdmatransport/softroce/internal/wire": true,
}

// faces lists the packages that only implement commands.
var faces = map[string]bool{
	"cmd/nvmeof/internal/administer":     true,
	"cmd/nvmeof/internal/attachcommand":  true,
	"cmd/nvmeof/internal/benchcommand":   true,
	"cmd/nvmeof/internal/connectcommand": true,
	"cmd/nvmeof/internal/demo":           true,
	"cmd/nvmeof/internal/discover":       true,
	"cmd/nvmeof/internal/listing":        true,
	"cmd/nvmeof/internal/nvmeverb":       true,
	"cmd/nvmeof/internal/rdmatools":      true,
	"cmd/nvmeof/internal/statusreport":   true,
	"cmd/nvmeof/internal/targetcommand":  true,
}

// exempt lists the packages without a floor, each with the reason.
var exempt = map[string]string{
	"cmd/nvmeof/internal/sandbox":        "runs in processes that may write no file, the counts neither",
	"rdmatransport/verbs":                "the functions of a build without it; the provider itself needs -tags verbs and a device: the guest's tests",
	"rdmatransport/verbs/internal/ccall": "14 statements, three of which are for a machine without memory",
}

// exemption returns why a package has no floor, or "" if it has one.
func exemption(pkg string) string {
	if strings.HasPrefix(pkg, "test/") {
		return "for tests, or run by them in guests"
	}
	return exempt[pkg]
}

func floorOf(pkg string) float64 {
	switch {
	case exemption(pkg) != "":
		return 0
	case engines[pkg]:
		return engineFloor
	case faces[pkg]:
		return faceFloor
	}
	return generalFloor
}
