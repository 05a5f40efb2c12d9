package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestOneOfMany: a target that is not alone offers nothing that a host would have to
// find on its other paths too.
func TestOneOfMany(t *testing.T) {
	for _, many := range []bool{false, true} {
		target, err := New(Config{Device: newFakeDevice(), Arena: 1 << 20, OneOfMany: many})
		if err != nil {
			t.Fatal(err)
		}
		c := &Controller{target: target}
		var id capsule.IdentifyController
		c.identifyIO(&id)
		for what, there := range map[string]bool{
			"ONCS reservations":     id.ONCS&capsule.ONCSReservations != 0,
			"NWPC":                  id.NWPC != 0,
			"Reservation Acquire":   target.io[capsule.IOReservationAcquire].start != nil,
			"Reservation Register":  target.io[capsule.IOReservationRegister].start != nil,
			"write protection":      target.features[capsule.FeatureNamespaceWriteProtect].get != nil,
			"reservation log":       target.logs[capsule.LogReservation].page != nil,
			"reservation log masks": target.features[capsule.FeatureReservationMask].get != nil,
		} {
			if there == many {
				t.Errorf("one of many %v: %s %v", many, what, there)
			}
		}
		if target.io[capsule.IORead].start == nil || target.features[capsule.FeatureNumberOfQueues].get == nil {
			t.Error("reading and queues are gone too")
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}
