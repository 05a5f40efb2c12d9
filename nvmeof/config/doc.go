// Package config describes a whole target as a document: listeners, subsystems, namespaces, hosts, ANA states and
// referrals. A document is YAML or JSON with the same schema.
//
// [Parse] reads strictly. Unknown fields, repeated fields, wrong types and values out of range are [Problems]. Each
// has a line, a column and a correction. [Document.Check] finds fields that contradict each other. [Document.YAML]
// and [Document.JSON] return the canonical form, which parses to the same document. [Rewrite] changes a text that a
// user wrote, and keeps the rest of it. [Diff] returns the changes between two documents, in order. [Schema]
// returns the JSON Schema.
//
// [ImportNvmetcli] and [ExportNvmetcli] read and write the format of nvmetcli's file, /etc/nvmet/config.json.
//
// The package is pure: it reads no file, no clock and no environment.
//
// # Not supported
//
// YAML anchors, aliases, tags and several documents in a file.
package config
