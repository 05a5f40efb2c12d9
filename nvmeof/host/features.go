package host

import (
	"context"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Features accesses the features of a controller with the commands Get Features and Set Features (NVMe base 2.0, 5.15
// and 5.27).
type Features struct{ controller *Controller }

// Features returns access to the controller's features.
func (c *Controller) Features() Features { return Features{c} }

// Get reads a feature and returns DW0 of the completion, which has its value. data receives the feature's data
// structure, if it has one.
func (fs Features) Get(ctx context.Context, f capsule.GetFeatures, id capsule.NSID, data []byte) (uint32, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetFeatures), NSID: id}
	f.Put(&cmd)
	done, err := fs.controller.Admin(ctx, cmd, data)
	return done.DW0(), err
}

// Set sets a feature and returns DW0 of the completion.
func (fs Features) Set(ctx context.Context, f capsule.SetFeatures, id capsule.NSID, data []byte) (uint32, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), NSID: id}
	f.Put(&cmd)
	done, err := fs.controller.Admin(ctx, cmd, data)
	return done.DW0(), err
}

func (fs Features) value(ctx context.Context, f capsule.FID, which uint32, id capsule.NSID) (uint32, error) {
	return fs.Get(ctx, capsule.GetFeatures{FID: f, Value: which}, id, nil)
}

func (fs Features) setValue(ctx context.Context, f capsule.FID, v uint32, id capsule.NSID) error {
	return second(fs.Set(ctx, capsule.SetFeatures{FID: f, Value: v}, id, nil))
}

// FeatureCapabilities says whether a feature can be saved or changed, and whether each namespace has its own value.
type FeatureCapabilities struct {
	Saveable, NamespaceSpecific, Changeable bool
}

// Capabilities reads the capabilities of a feature.
func (fs Features) Capabilities(ctx context.Context, f capsule.FID, id capsule.NSID) (FeatureCapabilities, error) {
	v, err := fs.Get(ctx, capsule.GetFeatures{FID: f, Select: capsule.SelectSupported}, id, nil)
	return FeatureCapabilities{
		Saveable: v&capsule.FeatureSaveable != 0, NamespaceSpecific: v&capsule.FeatureNamespaceSpecific != 0,
		Changeable: v&capsule.FeatureChangeable != 0,
	}, err
}

// NumberOfQueues reads how many I/O queues the controller has granted.
func (fs Features) NumberOfQueues(ctx context.Context) (capsule.QueueCounts, error) {
	v, err := fs.value(ctx, capsule.FeatureNumberOfQueues, 0, 0)
	return capsule.ParseQueueCounts(v), err
}

// EventConfig reads which asynchronous events the controller reports, as the bits capsule.EventSMART,
// capsule.EventNamespaceAttribute and so on.
func (fs Features) EventConfig(ctx context.Context) (uint32, error) {
	return fs.value(ctx, capsule.FeatureAsyncEvent, 0, 0)
}

// SetEventConfig sets which asynchronous events the controller reports. The controller returns an error for notices
// that it does not support (OAES).
func (fs Features) SetEventConfig(ctx context.Context, events uint32) error {
	return fs.setValue(ctx, capsule.FeatureAsyncEvent, events, 0)
}

// KeepAliveTimeout reads KATO: how long the host may be silent before the controller ends the association; 0 means no
// limit.
func (fs Features) KeepAliveTimeout(ctx context.Context) (time.Duration, error) {
	v, err := fs.value(ctx, capsule.FeatureKeepAliveTimer, 0, 0)
	return time.Duration(v) * time.Millisecond, err
}

// SetKeepAliveTimeout sets KATO, at least 1 ms, and how often the host sends Keep Alive. Keep alive cannot be disabled.
func (fs Features) SetKeepAliveTimeout(ctx context.Context, d time.Duration) error {
	ms := d.Milliseconds()
	if ms < 1 || ms > 1<<32-1 {
		return fmt.Errorf("keep alive timeout %v: want 1 ms to %v", d, (1<<32-1)*time.Millisecond)
	}
	if err := fs.setValue(ctx, capsule.FeatureKeepAliveTimer, uint32(ms), 0); err != nil {
		return err
	}
	return fs.controller.keep.every(fs.controller.queues.Admin(), d/2)
}

// TemperatureThreshold reads the upper threshold of a sensor, or the lower one if under is set, in kelvins. Sensor 0 is
// the composite temperature.
func (fs Features) TemperatureThreshold(ctx context.Context, sensor uint8, under bool) (uint16, error) {
	which := capsule.TemperatureThreshold{Sensor: sensor, Under: under}
	v, err := fs.value(ctx, capsule.FeatureTemperatureThreshold, which.Value(), 0)
	return uint16(v), err
}

// SetTemperatureThreshold sets a threshold, beyond which the controller reports a SMART event.
func (fs Features) SetTemperatureThreshold(ctx context.Context, t capsule.TemperatureThreshold) error {
	return fs.setValue(ctx, capsule.FeatureTemperatureThreshold, t.Value(), 0)
}

// WriteCache reports whether the controller's volatile write cache is enabled.
func (fs Features) WriteCache(ctx context.Context) (bool, error) {
	v, err := fs.value(ctx, capsule.FeatureVolatileWriteCache, 0, 0)
	return v&1 != 0, err
}

// SetWriteCache enables or disables the controller's volatile write cache.
func (fs Features) SetWriteCache(ctx context.Context, on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	return fs.setValue(ctx, capsule.FeatureVolatileWriteCache, v, 0)
}

// HostBehavior reads the host behavior support that the host has set at the controller.
func (fs Features) HostBehavior(ctx context.Context) (capsule.HostBehavior, error) {
	b := make([]byte, capsule.HostBehaviorSize)
	if _, err := fs.Get(ctx, capsule.GetFeatures{FID: capsule.FeatureHostBehavior}, 0, b); err != nil {
		return capsule.HostBehavior{}, err
	}
	return capsule.DecodeHostBehavior(b)
}

// SetHostBehavior tells the controller what the host supports.
func (fs Features) SetHostBehavior(ctx context.Context, h capsule.HostBehavior) error {
	b := make([]byte, capsule.HostBehaviorSize)
	h.Encode(b)
	return second(fs.Set(ctx, capsule.SetFeatures{FID: capsule.FeatureHostBehavior}, 0, b))
}

// Timestamp reads the controller's clock.
func (fs Features) Timestamp(ctx context.Context) (capsule.Timestamp, error) {
	b := make([]byte, capsule.TimestampSize)
	if _, err := fs.Get(ctx, capsule.GetFeatures{FID: capsule.FeatureTimestamp}, 0, b); err != nil {
		return capsule.Timestamp{}, err
	}
	return capsule.DecodeTimestamp(b)
}

// SetTimestamp sets the controller's clock, with a resolution of a millisecond.
func (fs Features) SetTimestamp(ctx context.Context, now time.Time) error {
	ms := now.UnixMilli()
	if ms < 0 || ms > capsule.MaxTimestampMillis {
		return fmt.Errorf("timestamp %v: want the years 1970 to 10889", now)
	}
	b := make([]byte, capsule.TimestampSize)
	capsule.Timestamp{Millis: uint64(ms)}.Encode(b)
	return second(fs.Set(ctx, capsule.SetFeatures{FID: capsule.FeatureTimestamp}, 0, b))
}

// WriteProtection reads the write protection state of the namespace.
func (n *Namespace) WriteProtection(ctx context.Context) (capsule.WriteProtection, error) {
	v, err := n.controller.Features().value(ctx, capsule.FeatureNamespaceWriteProtect, 0, n.io.ID)
	return capsule.WriteProtection(v & 7), err
}

// SetWriteProtection sets the write protection state of the namespace, which applies to all hosts.
func (n *Namespace) SetWriteProtection(ctx context.Context, p capsule.WriteProtection) error {
	return n.controller.Features().setValue(ctx, capsule.FeatureNamespaceWriteProtect, uint32(p), n.io.ID)
}
