// Package metrics shows the counters of a target, or of a host, to Prometheus.
//
// [NewTarget] and [NewGateway], or [NewHost] and [NewNBD], and [NewSoftroce] make collectors, and [Handler] serves them. The names begin with
// nvmf_ for NVMe over Fabrics, those of a host with nvmf_host_, and with roce_ for the RoCEv2 endpoint below it. Durations are
// seconds, sizes bytes; counters begin with the process. A histogram has classic buckets from
// 10 µs to 10 s for everybody, and native ones for a server that asks for them.
//
// A series for a kind of command, a status or a reason appears when there was one. Series of
// hosts, which come and go, are not there by default.
//
// A scrape reads the counters in the shards to which they belong, and waits for none of them
// longer than a turn of its loop; the data path has no lock for it.
package metrics
