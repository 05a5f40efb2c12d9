package nvmecli

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// warnings names the bits of the critical warning, in text and in JSON.
var warnings = []struct{ text, key string }{
	{"Available Spare[0]             ", "available_spare"},
	{"Temp. Threshold[1]             ", "temp_threshold"},
	{"NVM subsystem Reliability[2]   ", "reliability_degraded"},
	{"Read-only[3]                   ", "ro"},
	{"Volatile mem. backup failed[4] ", "vmbu_failed"},
	{"Persistent Mem. RO[5]          ", "pmr_ro"},
}

// SMART prints the page as `nvme smart-log` does.
func (o Output) SMART(nsid capsule.NSID, s *capsule.SMARTLog) error {
	if o.JSON {
		return o.json(o.smartJSON(s))
	}
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "Smart Log for NVME device:%s namespace-id:%x\n", o.Device, uint32(nsid))
		line := func(name, value string) {
			tabs := max(0, 5-len(name)/8)
			fmt.Fprintf(b, "%s%s: %s\n", name, strings.Repeat("\t", tabs), value)
		}
		line("critical_warning", hexed(s.CriticalWarning))
		if o.Human {
			for i, w := range warnings {
				fmt.Fprintf(b, "      %s: %d\n", w.text, s.CriticalWarning>>i&1)
			}
		}
		line("temperature", celsius(s.Temperature))
		line("available_spare", fmt.Sprintf("%d%%", s.AvailableSpare))
		line("available_spare_threshold", fmt.Sprintf("%d%%", s.SpareThreshold))
		line("percentage_used", fmt.Sprintf("%d%%", s.PercentageUsed))
		line("endurance group critical warning summary", hexed(s.EnduranceWarning))
		line("Data Units Read", dataUnits(s.DataUnitsRead))
		line("Data Units Written", dataUnits(s.DataUnitsWritten))
		for _, c := range smartCounts(s) {
			line(c.name, c.text)
		}
		smartTimes(line, s)
	})
}

// smartCounts returns the 16-byte counters, which have the same names in text and JSON.
func smartCounts(s *capsule.SMARTLog) []field {
	return []field{
		wide("host_read_commands", s.HostReads), wide("host_write_commands", s.HostWrites),
		wide("controller_busy_time", s.BusyTime), wide("power_cycles", s.PowerCycles),
		wide("power_on_hours", s.PowerOnHours), wide("unsafe_shutdowns", s.UnsafeShutdowns),
		wide("media_errors", s.MediaErrors), wide("num_err_log_entries", s.ErrorLogEntries),
	}
}

func smartTimes(line func(name, value string), s *capsule.SMARTLog) {
	line("Warning Temperature Time", fmt.Sprint(s.WarningTemperatureTime))
	line("Critical Composite Temperature Time", fmt.Sprint(s.CriticalTemperatureTime))
	for i, t := range s.TemperatureSensors {
		if t != 0 {
			line(fmt.Sprintf("Temperature Sensor %d", i+1), celsius(t))
		}
	}
	for i, n := range s.ThermalTransitions {
		line(fmt.Sprintf("Thermal Management T%d Trans Count", i+1), fmt.Sprint(n))
	}
	for i, n := range s.ThermalTime {
		line(fmt.Sprintf("Thermal Management T%d Total Time", i+1), fmt.Sprint(n))
	}
}

func celsius(kelvins uint16) string {
	return fmt.Sprintf("%d °C (%d K)", int(kelvins)-273, kelvins)
}

// dataUnits formats a count of units of 512000 bytes, and the corresponding size.
func dataUnits(u capsule.Uint128) string {
	units := wide("", u).text
	n, _ := new(big.Int).SetString(units, 10)
	v := new(big.Float).SetInt(n.Mul(n, big.NewInt(512000)))
	names := []string{"", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"}
	i := 0
	for ; i < len(names)-1 && v.Cmp(big.NewFloat(1000)) >= 0; i++ {
		v.Quo(v, big.NewFloat(1000))
	}
	return fmt.Sprintf("%s (%s %sB)", units, v.Text('f', 2), names[i])
}

func (o Output) smartJSON(s *capsule.SMARTLog) object {
	var warning any = integer(s.CriticalWarning)
	if o.Human {
		bits := object{{"value", warning}}
		for i, w := range warnings {
			bits = append(bits, member{w.key, integer(s.CriticalWarning >> i & 1)})
		}
		warning = bits
	}
	v := object{
		{"critical_warning", warning}, {"temperature", integer(s.Temperature)},
		{"avail_spare", integer(s.AvailableSpare)}, {"spare_thresh", integer(s.SpareThreshold)},
		{"percent_used", integer(s.PercentageUsed)}, {"endurance_grp_critical_warning_summary", integer(s.EnduranceWarning)},
	}
	v = append(v, members([]field{wide("data_units_read", s.DataUnitsRead), wide("data_units_written", s.DataUnitsWritten)})...)
	v = append(v, members(smartCounts(s))...)
	v = append(v, object{{"warning_temp_time", integer(s.WarningTemperatureTime)}, {"critical_comp_time", integer(s.CriticalTemperatureTime)}}...)
	for i, t := range s.TemperatureSensors {
		if t != 0 {
			v = append(v, member{fmt.Sprintf("temperature_sensor_%d", i+1), integer(t)})
		}
	}
	for i, n := range s.ThermalTransitions {
		v = append(v, member{fmt.Sprintf("thm_temp%d_trans_count", i+1), integer(n)})
	}
	for i, n := range s.ThermalTime {
		v = append(v, member{fmt.Sprintf("thm_temp%d_total_time", i+1), integer(n)})
	}
	return v
}
