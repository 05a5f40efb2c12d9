// Package health is in what state the target's stores are, and what hosts are told of it:
// the bits of Critical Warning, the temperature thresholds and the SMART / Health
// Information page (NVMe base 2.0, 5.16.1.3).
//
// All of it are values. A [State] does not change; whoever asks a store makes the next.
package health
