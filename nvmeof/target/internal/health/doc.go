// Package health has the state of the target's stores as it is reported to hosts: the
// bits of Critical Warning, the temperature thresholds and the SMART / Health Information
// page (NVMe base 2.0, 5.16.1.3).
//
// All of it are values. A [State] is immutable; whoever examines a store makes the next.
package health
