package main

// Floors, in percent of the statements of a package.
const (
	engineFloor  = 95 // what decides about every bit that a peer sends
	generalFloor = 85
)

// engines are the packages with the higher floor.
var engines = map[string]bool{
	"capsule":                              true,
	"nvmeof/auth":                          true,
	"rdmatransport/softroce/internal/cm":   true,
	"rdmatransport/softroce/internal/rc":   true,
	"rdmatransport/softroce/internal/wire": true,
}

// exempt are the packages without a floor, each with the reason.
var exempt = map[string]string{
	"cmd/nvmeof/internal/sandbox": "runs in processes that may write no file, the counts neither",
	"rdmatransport/verbs":         "the functions of a build without it; the provider itself needs -tags verbs and a device: the guest's tests",
	"test/bench":                  "the program that measures",
	"test/bench/internal/child":   "part of it",
	"test/bench/internal/fio":     "part of it",
	"test/guest":                  "starts guests, where there is QEMU",
	"test/interop/device":         "runs in guests",
	"test/interop/library":        "runs in guests",
}

func floorOf(pkg string) float64 {
	switch {
	case engines[pkg]:
		return engineFloor
	case exempt[pkg] != "":
		return 0
	}
	return generalFloor
}
