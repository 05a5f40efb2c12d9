// Package nvmecli prints what controllers say byte for byte as nvme-cli 2.13
// does, as text and as JSON, so that people and scripts need not learn another
// format.
package nvmecli
