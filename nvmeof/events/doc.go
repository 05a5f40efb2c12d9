// Package events keeps a log of what happened to a target: hosts that connect and disconnect, refusals, changes,
// failures of stores. A [Log] is bounded. With [Open] it survives restarts.
//
// The log has five parts of equal size: refusals; hosts that connect, disconnect and are lost; reservations;
// namespaces, ANA states and listeners; and the rest, which is configuration, stores, starts and stops. An event
// replaces the oldest one of its own part only. A peer that connects all the time, or is refused all the time, thus
// displaces nothing of the other parts.
//
// Limits apply to events that peers can cause:
//
//   - Equal events within ten seconds are counted in one.
//   - Within that time, one address has at most four different refusals, and one more event that counts the others.
//   - Every part but the last accepts at most twenty events in a second, and one more event that counts the others.
//
// # The file
//
// The file consists of text records of 1024 bytes, each of which ends in a line feed: a header, one record for each
// event that the log can hold, and a last one. The last record has the sequence numbers at which the last 16
// processes began, so that a client that resumes after a crash misses nothing. Each record has a checksum; a torn
// or damaged record is skipped.
//
// A goroutine of the log writes the file after an event was recorded. If a write fails or hangs, the events are
// counted as lost; nothing else is affected.
package events
