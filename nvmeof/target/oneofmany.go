package target

import "github.com/nvmeof-go/nvmeof/capsule"

// restrict takes out of the tables what holds for a namespace whatever the path, where
// other targets serve it too.
func (t *Target) restrict() {
	if !t.cfg.OneOfMany {
		return
	}
	for _, op := range [...]capsule.IOOpcode{
		capsule.IOReservationRegister, capsule.IOReservationReport, capsule.IOReservationAcquire, capsule.IOReservationRelease,
	} {
		t.io[op] = ioRow{}
	}
	for _, id := range [...]capsule.FID{
		capsule.FeatureReservationMask, capsule.FeatureReservationPersist, capsule.FeatureNamespaceWriteProtect,
	} {
		t.features[id] = feature{}
	}
	t.logs[capsule.LogReservation] = logRow{}
}

// restrictIdentity takes it out of what hosts are told.
func (c *Controller) restrictIdentity(id *capsule.IdentifyController) {
	if c.target.cfg.OneOfMany {
		id.ONCS &^= capsule.ONCSReservations
		id.NWPC = 0
	}
}

// reservationCapabilities is RESCAP of a namespace.
func (c *Controller) reservationCapabilities(ns *Namespace) uint8 {
	if c.target.cfg.OneOfMany {
		return 0
	}
	return ns.reservations.capabilities()
}
