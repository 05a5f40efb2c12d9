package drive

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/backend"
)

// An ataAttribute is an attribute of the SMART table.
type ataAttribute struct {
	name   string // without spaces
	format string // of the raw value, as the library names it
}

// ataAttributes are the attributes that most vendors use alike. The units of read and written data differ between
// vendors, and thresholds are not available, so fields that need these are not reported.
var ataAttributes = map[int]ataAttribute{
	9:   {"Power_On_Hours", "raw24(raw8)"},
	12:  {"Power_Cycle_Count", "raw48"},
	177: {"Wear_Leveling_Count", "raw48"},
	187: {"Reported_Uncorrect", "raw48"},
	190: {"Airflow_Temperature", "tempminmax"},
	192: {"Power_Off_Retract_Count", "raw48"},
	194: {"Temperature", "tempminmax"},
	198: {"Offline_Uncorrectable", "raw48"},
	202: {"Percent_Lifetime_Left", "raw48"},
	231: {"SSD_Life_Left", "raw48"},
	233: {"Media_Wearout_Indicator", "raw48"},
}

// An ataRow is a drive's value of an attribute.
type ataRow struct {
	value uint64 // normalized: 1 is worst, 100 or more is new
	raw   uint64
}

// parseATA parses rows of the library's table:
//
//	9 Power_On_Hours           0x32   098   098   000      Old_age  Always  1234 (0 0 0)
func parseATA(text string) (backend.Health, error) {
	rows := map[int]ataRow{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 {
			continue
		}
		id, err := strconv.Atoi(f[0])
		if a, ok := ataAttributes[id]; err != nil || !ok || f[1] != a.name {
			continue
		}
		value, err := strconv.ParseUint(f[3], 10, 8)
		raw, err2 := strconv.ParseUint(f[8], 10, 64)
		if err == nil && err2 == nil { // temperatures below zero are not reported
			rows[id] = ataRow{value, raw}
		}
	}
	if len(rows) == 0 {
		return backend.Health{}, errors.New("the drive reports no attribute that is known")
	}
	return healthOf(rows), nil
}

// healthOf fills in Health. If several attributes have the same meaning, the first one counts.
func healthOf(rows map[int]ataRow) (h backend.Health) {
	take := func(known backend.HealthFields, set func(ataRow), ids ...int) {
		for _, id := range ids {
			if r, ok := rows[id]; ok {
				set(r)
				h.Known |= known
				return
			}
		}
	}
	take(backend.HealthTemperature, func(r ataRow) { h.Temperature = uint16(r.raw) + 273 }, 194, 190)
	take(backend.HealthPowerOnHours, func(r ataRow) { h.PowerOnHours = r.raw }, 9)
	take(backend.HealthPowerCycles, func(r ataRow) { h.PowerCycles = r.raw }, 12)
	take(backend.HealthUnsafeShutdowns, func(r ataRow) { h.UnsafeShutdowns = r.raw }, 192)
	take(backend.HealthMediaErrors, func(r ataRow) { h.MediaErrors = r.raw }, 187, 198)
	take(backend.HealthUsed, func(r ataRow) { h.Used = uint8(100 - min(r.value, 100)) }, 233, 231, 202, 177)
	return h
}
