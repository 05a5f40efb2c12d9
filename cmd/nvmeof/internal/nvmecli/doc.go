// Package nvmecli prints what controllers say byte for byte as nvme-cli 2.13
// does, as text and as JSON, so that people and scripts need not learn another
// format.
//
// It differs where nvme-cli prints an address of its own memory (the JSON of get-log
// and of data of pass-through commands), what it did not set (set-property), and of
// features that controllers over fabrics do not have, which it spells out and this
// package shows as bytes.
package nvmecli
