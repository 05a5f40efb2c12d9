package drive

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/backend"
)

// nvmeFields are the lines of the library's text that correspond to a field of Health.
var nvmeFields = map[string]struct {
	known backend.HealthFields
	set   func(h *backend.Health, v uint64)
}{
	"Critical warning":              {backend.HealthWarning, func(h *backend.Health, v uint64) { h.Warning = backend.Warning(v) }},
	"Temperature":                   {backend.HealthTemperature, func(h *backend.Health, v uint64) { h.Temperature = uint16(v) + 273 }},
	"Avail. spare":                  {backend.HealthSpare, func(h *backend.Health, v uint64) { h.Spare = uint8(v) }},
	"Avail. spare threshold":        {backend.HealthSpare, func(h *backend.Health, v uint64) { h.SpareThreshold = uint8(v) }},
	"Percentage used":               {backend.HealthUsed, func(h *backend.Health, v uint64) { h.Used = uint8(v) }},
	"Data units read":               {backend.HealthUnits, func(h *backend.Health, v uint64) { h.UnitsRead = v }},
	"Data units written":            {backend.HealthUnits, func(h *backend.Health, v uint64) { h.UnitsWritten = v }},
	"Host read commands":            {backend.HealthCommands, func(h *backend.Health, v uint64) { h.Reads = v }},
	"Host write commands":           {backend.HealthCommands, func(h *backend.Health, v uint64) { h.Writes = v }},
	"Controller busy time":          {backend.HealthBusyMinutes, func(h *backend.Health, v uint64) { h.BusyMinutes = v }},
	"Power cycles":                  {backend.HealthPowerCycles, func(h *backend.Health, v uint64) { h.PowerCycles = v }},
	"Power on hours":                {backend.HealthPowerOnHours, func(h *backend.Health, v uint64) { h.PowerOnHours = v }},
	"Unsafe shutdowns":              {backend.HealthUnsafeShutdowns, func(h *backend.Health, v uint64) { h.UnsafeShutdowns = v }},
	"Media & data integrity errors": {backend.HealthMediaErrors, func(h *backend.Health, v uint64) { h.MediaErrors = v }},
	"Error information log entries": {backend.HealthErrorLogEntries, func(h *backend.Health, v uint64) { h.ErrorLogEntries = v }},
}

// parseNVMe parses lines such as "Power on hours: 1234". All fields must be present.
func parseNVMe(text string) (h backend.Health, err error) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		field, ok := nvmeFields[key]
		if !ok {
			continue
		}
		n, err := leadingNumber(value)
		if err != nil {
			return backend.Health{}, fmt.Errorf("%s: %w", key, err)
		}
		field.set(&h, n)
		h.Known |= field.known
		seen[key] = true
	}
	for key := range nvmeFields {
		if !seen[key] {
			return backend.Health{}, fmt.Errorf("the health log does not contain %q", key)
		}
	}
	return h, nil
}

// leadingNumber parses "93%", "0x01", "38° Celsius" or "123 [63.0 GB]". A field of 128 bits that does not fit is
// replaced by the largest number.
func leadingNumber(s string) (uint64, error) {
	end := strings.IndexAny(s, "%° [(")
	if end < 0 {
		end = len(s)
	}
	n, ok := new(big.Int).SetString(s[:end], 0)
	switch {
	case !ok || n.Sign() < 0:
		return 0, fmt.Errorf("%s is not a number", strconv.Quote(s))
	case !n.IsUint64():
		return math.MaxUint64, nil
	}
	return n.Uint64(), nil
}
