// Package control runs a target by a document: it makes the target what a
// [config.Document] describes, changes it while hosts use it, and serves an HTTP
// API for that on a unix socket.
//
// [New] makes a [Manager] of a [target.Target], [Manager.Apply] applies a document,
// and [Serve] serves the API at a [Socket]. A [Client] calls the API of a running
// target. The example is a complete program.
//
// # Changes
//
// Every change, of one host or of everything, is an edit of the document. A
// [Manager] compares the new document with the present one ([config.Diff]), opens
// every new store, and carries out the steps in order. If one fails, those before
// it are undone, last first, and the document stays as it was: the error is a
// [StepError] with the step, why it failed and what could not be undone. Hosts
// that a step had disconnected reconnect by themselves.
//
// [Manager.Apply] takes a whole document, and removes what that lacks. If connected
// hosts use that, the error is an [InUseError] unless the change is forced, since a
// document may have been cut short. An edit that removes something by its name is
// not refused.
//
// The growth of a file cannot be undone; only the removal of subsystems comes after
// it. A subsystem whose state file another one takes over is removed earlier: if a
// later step fails, what hosts had set there, and no file keeps, is lost.
//
// Listeners of one RDMA device share it. The device is opened with its first listener
// and closed with its last. A device that is lost takes along its listeners, which wait
// for it, and nothing else. A listener on 0.0.0.0 or [::] is every address of that
// family that other machines reach, including later ones: the machine's addresses are
// read every 2 s.
//
// A removal waits for commands that stores have not finished. If a store hangs, the
// change waits for 5 s. Then the removed thing counts as gone, the log names the store,
// [Status.Leaving] lists it, and it disappears when the store has answered. Until then
// its device, or what its namespace exports, cannot be opened with other options or
// reservations ([LeavingError]); a listener on the device waits for it.
//
// The document's transport, limits, congestion control and the name of the discovery
// subsystem cannot be changed while the target runs: that is a [RestartError].
//
// A file system or a block device that hangs delays only what needs it. A change waits
// for it for 10 s and fails with a [HungError]; until it has answered, every other
// change that needs it fails so at once. That applies to what is exported, to
// reservations, state and keys, to the file that is saved, and to an RDMA device that
// is opened, for which the wait is 5 s. A host's command that saves a record fails too.
//
// # Starting
//
// With Options.Wait, faults of a namespace are no error: its file or device is missing,
// empty, in use, or silent for 5 s, or its reservations are unreadable. Nor is it an error
// that the address or the RDMA device of a listener is missing, or used by another process,
// unless no listener can be opened. The target serves the others, says what it waits for,
// and looks again after 1 s, 2 s and so on up to 30 s, for a listener up to 5 s. A file is
// opened when it has not grown for 0.5 s. [Foresee] reports all this before a start. To
// hosts, a namespace that waits exists and is inaccessible, so that they keep its disk. A
// host whose key cannot be read is refused, with a status after which hosts retry, and its
// key is tried again likewise; if [Manager.RereadKeys] cannot read a key, the host keeps
// the previous one. With Options.WaitDevice, only a listener waits, for an RDMA device:
// this is how a target of flags starts.
//
// # Hosts
//
// Since 6.10, Linux removes a controller, with its disks, if its Connect is refused with
// Do Not Retry while it reconnects. So a start or a change is atomic for hosts:
//
//   - listeners open after everything else;
//   - a host that a step excludes gets a status for a retry until the last step is done or
//     undone ([target.Target.Change]);
//   - the discovery log does not change until then;
//   - a namespace that is closed and opened with other options, and has the same
//     identifiers, is inaccessible in between and not removed.
//
// Whether a host may stay connected is decided by the result of the change. A subsystem's
// serial number, model, version and range of controller identifiers apply to later
// controllers.
//
// # Goroutines
//
// A Manager has one or two goroutines for each removal that waits for a store, one for
// each file or device that it asks for something (Close does not wait for those that
// hang), one for each namespace, host and listener that waits, one for each listener on
// 0.0.0.0 or [::], and one for each address that is served, which reports the loss of the
// device; a [Server] has those of net/http. None touches the data path. One mutex makes
// changes one at a time.
//
// # The API
//
// The socket has mode 0600: whoever may open it may do everything. [DefaultSocket] is that
// of the target of a file, [ListenBeside] makes those of others, and [Sockets] finds those
// that are served. Bodies are JSON of at most 4 MiB, those of a host, a namespace and so on
// of at most 256 KiB, and are read as strictly as files. An error is an object with a code
// and a sentence, which the command line prints. openapi.json describes the routes.
package control
