// Package hosts has the NVMe hosts that a process runs: one on a device of its own for as long
// as a command takes ([Session]), or one for each address of this machine, shared by all that
// the process keeps connected ([Pool]).
//
// It also says how to wait for a controller: at which intervals ([Retry]), what a user sees
// meanwhile ([Silence]), and what a refusal means ([Explain]).
package hosts
