package target

import (
	"encoding/binary"
	"math/bits"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// features are a controller's feature values. They are volatile: none can be saved.
type features struct {
	values     [256]uint32 // by FID, of features with a value of one dword
	timestamp  uint64      // as set by the host, in milliseconds since 1970
	stampedAt  int64       // when it was set, by the shard's clock
	stamped    bool        // set by the host
	hostConfig [capsule.HostBehaviorSize]byte
	limits     health.Limits
}

// A featureHandler gets or sets a feature; r.result is DW0 of the completion.
type featureHandler func(c *Controller, r *request, value uint32) capsule.Status

// A feature describes one feature identifier.
type feature struct {
	get, set featureHandler
	fixed    bool   // Set Features accepts only the current value
	size     uint32 // bytes of data of both Get Features and Set Features
	initial  uint32
	ranked   bool                   // get itself distinguishes the requested value (SEL)
	always   bool                   // discovery controllers have it too
	scope    capsule.FeatureEffects // default: controller scope
}

// perNamespace reports whether each namespace has a value of its own.
func (f *feature) perNamespace() bool { return f.scope&capsule.FIDNamespaceScope != 0 }

// effects returns the scope of a feature (NVMe base 2.0, 5.16.1.17).
func (f *feature) effects() capsule.FeatureEffects {
	if f.scope != 0 {
		return f.scope
	}
	return capsule.FIDControllerScope
}

// featureTable has the features of NVMe base 2.0, figure 316, that a controller over fabrics must have or may have
// and that are implemented.
func featureTable() [256]feature {
	return [256]feature{
		capsule.FeatureArbitration:          {get: getValue, set: setValue},
		capsule.FeaturePowerManagement:      {get: getValue, set: setPowerState},
		capsule.FeatureTemperatureThreshold: {get: getTemperatureLimit, set: setTemperatureLimit, ranked: true},
		capsule.FeatureErrorRecovery:        {get: getValue, set: setErrorRecovery},
		capsule.FeatureVolatileWriteCache:   {get: getValue, set: setWriteCache, initial: writeCacheOn},
		capsule.FeatureNumberOfQueues:       {get: getQueues, set: setQueues, ranked: true},
		capsule.FeatureWriteAtomicity:       {get: getValue, set: setValue},
		capsule.FeatureAsyncEvent:           {get: getEvents, set: setEvents, always: true},
		capsule.FeatureTimestamp:            {get: getTimestamp, set: setTimestamp, size: capsule.TimestampSize},
		capsule.FeatureKeepAliveTimer:       {get: getKeepAlive, set: setKeepAlive, always: true},
		capsule.FeatureHostBehavior:         {get: getHostBehavior, set: setHostBehavior, size: capsule.HostBehaviorSize},
		capsule.FeatureProgressMarker:       {get: getProgress, set: setProgress, scope: capsule.FIDSubsystemScope},
		capsule.FeatureHostID:               {get: getHostID, set: setHostID, fixed: true, size: capsule.HostIDSize, always: true},
		capsule.FeatureReservationMask:      {get: getReservationMask, set: setReservationMask, scope: capsule.FIDNamespaceScope},
		capsule.FeatureReservationPersist:   {get: getReservationPersist, set: setReservationPersist, scope: capsule.FIDNamespaceScope},
		capsule.FeatureNamespaceWriteProtect: {get: getWriteProtection, set: setWriteProtection, ranked: true,
			scope: capsule.FIDNamespaceScope | capsule.FIDNamespaceChanges},
	}
}

// feature returns the description of a feature, or nil if the controller does not have it.
func (c *Controller) feature(id capsule.FID) *feature {
	f := &c.target.features[id]
	if f.get == nil || c.discovery() && !f.always || id == capsule.FeatureNamespaceWriteProtect && !protects(c.target) {
		return nil
	}
	return f
}

// knownFeature checks that the feature is known. It runs before the check of the data's length, which requires
// that.
func knownFeature(q *queue, r *request) capsule.Status {
	if q.controller.feature(capsule.FID(r.cmd.CDW10)) == nil {
		return r.invalid(10, 0)
	}
	return capsule.StatusSuccess
}

// featureSize returns the data length of Get Features and Set Features.
func featureSize(c *Controller, cmd *capsule.Command) uint64 {
	id := capsule.FID(cmd.CDW10)
	f := c.feature(id)
	get := capsule.AdminOpcode(cmd.Opcode) == capsule.AdminGetFeatures
	switch {
	case get && cmd.GetFeatures().Select == capsule.SelectSupported:
		return 0
	case id == capsule.FeatureHostID && cmd.CDW11&extendedHostID == 0:
		return capsule.HostIDShortSize
	}
	return uint64(f.size)
}

func getFeatures(c *Controller, r *request) capsule.Status {
	g := r.cmd.GetFeatures()
	f := c.feature(g.FID)
	switch {
	case g.Select > capsule.SelectSupported:
		return r.invalid(10, 8)
	case g.Select == capsule.SelectSupported:
		if !f.fixed {
			r.result = uint64(capsule.FeatureChangeable)
		}
		if f.perNamespace() {
			r.result |= uint64(capsule.FeatureNamespaceSpecific)
		}
		return capsule.StatusSuccess
	case g.Select != capsule.SelectCurrent && f.size == 0 && !f.ranked:
		r.result = uint64(f.initial)
		return capsule.StatusSuccess
	}
	if status := c.featurePath(f, r); !status.OK() {
		return status
	}
	return f.get(c, r, g.Value)
}

// featurePath returns an error status if the namespace of a feature is not accessible through this controller
// (NVMe base 2.0, 8.1), so that the host uses another one.
func (c *Controller) featurePath(f *feature, r *request) capsule.Status {
	if !f.perNamespace() || r.cmd.NSID == capsule.NSIDBroadcast {
		return capsule.StatusSuccess
	}
	ns, status := c.view.Reach(r.cmd.NSID)
	if ns != nil && c.view.Replaced(ns) && !c.view.Identified(ns) {
		return statusUnidentified
	}
	return status
}

func setFeatures(c *Controller, r *request) capsule.Status {
	s := r.cmd.SetFeatures()
	f := c.feature(s.FID)
	switch {
	case s.Save:
		return capsule.StatusFeatureNotSaveable | capsule.StatusDNR
	case !f.perNamespace() && r.cmd.NSID != 0 && r.cmd.NSID != capsule.NSIDBroadcast:
		return capsule.StatusFeatureNotNamespaceSpecific | capsule.StatusDNR
	}
	if status := c.featurePath(f, r); !status.OK() {
		return status
	}
	return f.set(c, r, s.Value)
}

// preset reports whether a Get Features selects the default or the saved value. The two are equal, since nothing
// is saved.
func preset(r *request) bool {
	return capsule.AdminOpcode(r.cmd.Opcode) == capsule.AdminGetFeatures && r.cmd.GetFeatures().Select != capsule.SelectCurrent
}

func getValue(c *Controller, r *request, _ uint32) capsule.Status {
	r.result = uint64(c.features.values[uint8(r.cmd.CDW10)])
	return capsule.StatusSuccess
}

func setValue(c *Controller, r *request, v uint32) capsule.Status {
	c.features.values[uint8(r.cmd.CDW10)] = v
	return capsule.StatusSuccess
}

// setPowerState accepts the only power state, 0 (NPSS is 0).
func setPowerState(c *Controller, r *request, v uint32) capsule.Status {
	if v&0x1f != 0 {
		return r.invalid(11, 0)
	}
	return setValue(c, r, v)
}

// setErrorRecovery refuses DULBE: no namespace reports deallocated blocks.
func setErrorRecovery(c *Controller, r *request, v uint32) capsule.Status {
	if v>>16&1 != 0 {
		return r.invalid(11, 16)
	}
	return setValue(c, r, v)
}

// getQueues returns the target's limit until the host has set a number.
func getQueues(c *Controller, r *request, _ uint32) capsule.Status {
	n := c.grantedQueues()
	if preset(r) {
		n = c.target.cfg.MaxQueues
	}
	r.result = uint64(capsule.QueueCounts{Submission: n, Completion: n}.Value())
	return capsule.StatusSuccess
}

// setQueues grants the number that the host requests, up to the limit. It fails if I/O queues exist; 65536 is
// reserved (NVMe base 2.0, 5.27.1.5).
func setQueues(c *Controller, r *request, v uint32) capsule.Status {
	q := capsule.ParseQueueCounts(v)
	if q.Submission > 65535 || q.Completion > 65535 {
		return r.invalid(11, 0)
	}
	if !c.setGrantedQueues(min(max(q.Submission, q.Completion), c.target.cfg.MaxQueues)) {
		return capsule.StatusCommandSequence | capsule.StatusDNR
	}
	return getQueues(c, r, 0)
}

func getEvents(c *Controller, r *request, _ uint32) capsule.Status {
	r.result = uint64(c.events.Enabled)
	return capsule.StatusSuccess
}

// setEvents accepts the notices of OAES, and the SMART bits, which every I/O controller supports.
func setEvents(c *Controller, r *request, v uint32) capsule.Status {
	allowed := state.SupportedEvents | capsule.EventSMART
	if c.discovery() {
		allowed = state.SupportedDiscoveryEvents
	}
	if v&^allowed != 0 {
		return r.invalid(11, bits.TrailingZeros32(v&^allowed))
	}
	if fresh := v & capsule.EventSMART & c.events.Enable(v); fresh != 0 {
		r.chargeAll(healthCost)
		remind(c, uint8(fresh))
	}
	r.result = uint64(v)
	return capsule.StatusSuccess
}

// getTimestamp returns the time that the host set, or zero, plus the time since then or since the controller's
// start. Bits 3:1 of byte 6 are the origin, 1 or 0 (NVMe base 2.0, 5.27.1.11). The default is zero.
func getTimestamp(c *Controller, r *request, _ uint32) capsule.Status {
	f := &c.features
	if preset(r) {
		return capsule.StatusSuccess
	}
	elapsed := uint64(max(c.now()-f.stampedAt, 0)) / 1e6
	v := (f.timestamp + elapsed) & capsule.MaxTimestampMillis
	if f.stamped {
		v |= 1 << 49
	}
	binary.LittleEndian.PutUint64(r.data, v)
	return capsule.StatusSuccess
}

func setTimestamp(c *Controller, r *request, _ uint32) capsule.Status {
	c.features.timestamp = binary.LittleEndian.Uint64(r.data) & capsule.MaxTimestampMillis
	c.features.stampedAt, c.features.stamped = c.now(), true
	return capsule.StatusSuccess
}

func getKeepAlive(c *Controller, r *request, _ uint32) capsule.Status {
	r.result = uint64(c.keep.Millis)
	return capsule.StatusSuccess
}

// setKeepAlive sets the keep alive timeout. It fails if the value would disable a running timer.
func setKeepAlive(c *Controller, r *request, v uint32) capsule.Status {
	if v == 0 {
		return capsule.StatusKeepAliveInvalid | capsule.StatusDNR
	}
	c.keep.Set(v, c.now())
	c.armKeepAlive()
	r.result = uint64(c.keep.Millis)
	return capsule.StatusSuccess
}

func getHostBehavior(c *Controller, r *request, _ uint32) capsule.Status {
	if !preset(r) {
		copy(r.data, c.features.hostConfig[:])
	}
	return capsule.StatusSuccess
}

// setHostBehavior stores what the host supports; that does not change the behaviour of this controller. Each
// defined field is 0 or 1.
func setHostBehavior(c *Controller, r *request, _ uint32) capsule.Status {
	const acre, etdas, lbafee = 0, 1, 2
	if r.data[acre] > 1 || r.data[etdas] > 1 || r.data[lbafee] > 1 {
		return invalidField
	}
	copy(c.features.hostConfig[:], r.data)
	return capsule.StatusSuccess
}

// extendedHostID is EXHID, which controllers over fabrics require to be set.
const extendedHostID = 1

func getHostID(c *Controller, r *request, v uint32) capsule.Status {
	if v&extendedHostID == 0 {
		return capsule.StatusHostIDInconsistent | capsule.StatusDNR
	}
	copy(r.data, c.hostID[:])
	return capsule.StatusSuccess
}

// setHostID always fails: over fabrics, Connect sets the host identifier (NVMe base 2.0, 5.27.1.25).
func setHostID(_ *Controller, _ *request, v uint32) capsule.Status {
	if v&extendedHostID == 0 {
		return capsule.StatusHostIDInconsistent | capsule.StatusDNR
	}
	return capsule.StatusCommandSequence | capsule.StatusDNR
}

// getProgress returns the Software Progress Marker, which survives controllers, but not the target.
func getProgress(c *Controller, r *request, _ uint32) capsule.Status {
	r.result = uint64(c.subsystem.progress.Load())
	return capsule.StatusSuccess
}

func setProgress(c *Controller, _ *request, v uint32) capsule.Status {
	c.subsystem.progress.Store(v & 0xff)
	return capsule.StatusSuccess
}
