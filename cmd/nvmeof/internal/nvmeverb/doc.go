// Package nvmeverb has nvme-cli's commands on one controller: their flags, what they send,
// and what they do with the answer, which internal/nvmecli prints. How a controller is
// reached is a [Connection]'s.
package nvmeverb
