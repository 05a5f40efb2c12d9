package health

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestPercentLeft(t *testing.T) {
	for _, c := range []struct {
		free, need int64
		want       uint8
	}{{0, 0, 100}, {0, -5, 100}, {5, 5, 100}, {0, 1, 0}, {-1, 1, 0}, {1, 2, 50}, {9, 100, 9}, {1 << 60, 1 << 62, 25}} {
		if got := PercentLeft(c.free, c.need); got != c.want {
			t.Errorf("%d bytes free of %d: %d %%, want %d", c.free, c.need, got, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		s    State
		want uint8
	}{
		{*Sound(), 0}, {State{Spare: SpareThreshold}, 0}, {State{Spare: SpareThreshold - 1}, capsule.WarningSpare},
		{State{Spare: 100, Failed: true}, capsule.WarningReliability | capsule.WarningReadOnly},
	} {
		if got := c.s.Warnings(); got != c.want {
			t.Errorf("%+v warns by %#x, want %#x", c.s, got, c.want)
		}
	}
}

// TestThresholds: the two thresholds are set and read separately, and only for the composite sensor.
func TestThresholds(t *testing.T) {
	const cool = 298
	l := DefaultLimits()
	if l.Exceeded(cool) || !l.Exceeded(Warning) || l.Exceeded(Unknown) {
		t.Errorf("the default warns wrongly: %+v", l)
	}
	*l.Pick(capsule.TemperatureThreshold{Under: true}, true) = cool
	if !l.Exceeded(cool) || l.Exceeded(cool+1) || l.Exceeded(Unknown) || *l.Pick(capsule.TemperatureThreshold{}, false) != Warning {
		t.Errorf("with a lower threshold: %+v", l)
	}
	for _, f := range []capsule.TemperatureThreshold{{Invalid: true}, {Sensor: 1}} {
		if l.Pick(f, true) != nil || l.Pick(f, false) != nil {
			t.Errorf("%+v selects a threshold", f)
		}
	}
	all := capsule.TemperatureThreshold{Sensor: capsule.AllSensors}
	if l.Pick(all, true) == nil || l.Pick(all, false) != nil {
		t.Error("all sensors can be set, and no one value read")
	}
}

// TestSMARTTakesTheWorst: the log has the worst values of several stores, and the sums of the hosts' counters.
func TestSMARTTakesTheWorst(t *testing.T) {
	self := backend.Health{PowerCycles: 1, UnsafeShutdowns: 2}
	l := Log(self, nil, &Counts{})
	if l.AvailableSpare != 100 || l.Temperature != Unknown || l.PowerCycles.Lo != 1 {
		t.Errorf("without stores %+v", l)
	}
	worn := &State{Spare: 60, Drive: backend.Health{Known: backend.HealthSpare | backend.HealthTemperature, Spare: 40, Temperature: 330, Used: 7, MediaErrors: 3}}
	l = Log(self, []*State{Sound(), worn}, &Counts{Reads: 5, ReadBytes: 512001, MediaErrors: 1, Busy: 90 * time.Second})
	if l.AvailableSpare != 40 || l.Temperature != 330 || l.PercentageUsed != 7 || l.MediaErrors.Lo != 3 ||
		l.HostReads.Lo != 5 || l.DataUnitsRead.Lo != 2 || l.BusyTime.Lo != 1 || l.UnsafeShutdowns.Lo != 2 {
		t.Errorf("with a worn drive %+v", l)
	}
}
