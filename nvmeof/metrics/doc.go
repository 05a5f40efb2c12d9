// Package metrics exports the counters of a target or a host to Prometheus.
//
// [NewTarget] and [NewGateway], or [NewHost] and [NewNBD], and [NewSoftroce] return collectors, and [Handler]
// serves them. Names begin with nvmf_ for NVMe over Fabrics, with nvmf_host_ for a host, and with roce_ for the
// RoCEv2 endpoint below it. Durations are in seconds, sizes in bytes. Counters start at 0 with the process. A
// histogram has classic buckets from 10 µs to 10 s, and native ones for a server that asks for them.
//
// A series for a kind of command, a status or a reason appears when it first occurs. Since hosts come and go, there
// are no series for single hosts by default.
//
// A scrape reads the counters in the shards that own them. Each shard answers within one turn of its loop, and the
// data path takes no lock for it.
package metrics
