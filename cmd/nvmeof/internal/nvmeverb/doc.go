// Package nvmeverb implements nvme-cli's commands on one controller: their flags, the commands that they send, and the
// processing of the results, which internal/nvmecli prints. A [Connection] reaches the controller.
package nvmeverb
