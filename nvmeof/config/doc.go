// Package config is the description of a whole target as a document: listeners,
// subsystems, namespaces, hosts, ANA states and referrals. One schema is written
// as YAML or as JSON.
//
// [Parse] reads strictly. Unknown fields, fields given twice, wrong types and
// values out of range are [Problems], each with its line and column and what to
// write instead; [Document.Check] finds what is wrong between fields that are each
// right. [Document.YAML] and [Document.JSON] write the canonical form, which
// parses to the same document; [Rewrite] changes a text that somebody wrote, and keeps the
// rest of it. [Diff] tells in what order one document becomes
// another. [Schema] is the JSON Schema of the types.
//
// [ImportNvmetcli] and [ExportNvmetcli] read and write what nvmetcli keeps in
// /etc/nvmet/config.json.
//
// The package is pure: it reads no file, no clock and no environment.
//
// # Not supported
//
// YAML anchors, aliases, tags and several documents in a file.
package config
