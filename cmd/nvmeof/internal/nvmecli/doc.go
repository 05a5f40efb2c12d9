// Package nvmecli prints the data of controllers byte for byte as nvme-cli 2.13 does, as text and as JSON, so that
// people and scripts need not learn another format.
//
// It differs where nvme-cli prints an address of its own memory (the JSON of get-log, and of the data of pass-through
// commands) or a value that it did not set (set-property). Features that controllers over fabrics do not have are
// shown as bytes, where nvme-cli decodes them.
package nvmecli
