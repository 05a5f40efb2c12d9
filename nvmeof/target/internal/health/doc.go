// Package health implements the health of the target's stores as it is reported to hosts: the bits of Critical
// Warning, the temperature thresholds and the SMART / Health Information page (NVMe base 2.0, 5.16.1.3).
//
// A [State] is immutable; each examination of a store creates a new one.
package health
