// Package control runs a target from a document: it makes the target what a [config.Document] describes, changes it
// while hosts use it, and serves an HTTP API for that on a unix socket.
//
// [New] returns a [Manager] of a [target.Target], [Manager.Apply] applies a document, and [Serve] serves the API at
// a [Socket]. A [Client] calls the API of a running target. The example is a complete program.
//
// # Changes
//
// Every change, of one host or of everything, is an edit of the document. A [Manager] compares the new document
// with the present one ([config.Diff]), opens every new store, and carries out the steps in order. If a step fails,
// those before it are undone, the last one first, and the document stays as it was. The error is a [StepError] with
// the step, why it failed, and what could not be undone. Hosts that a step disconnected reconnect by themselves.
//
// [Manager.Apply] takes a whole document, and removes what the document lacks. Since a document may have been cut
// short, it fails with an [InUseError] if connected hosts use something that would be removed, unless the change is
// forced. An edit that removes an object by name is not refused.
//
// The extension of a file cannot be undone; only the removal of subsystems comes after it. A subsystem whose state
// file another one takes over is removed earlier. If a later step fails, the settings that hosts made there and
// that no file has are lost.
//
// Listeners of one RDMA device share it. The device is opened with its first listener and closed with its last. If
// a device is lost, only its listeners are lost, and wait for it. A listener on 0.0.0.0 or [::] serves every
// address of that family that other machines reach, including later ones: the machine's addresses are read every 2
// s.
//
// A removal waits for commands that stores have not finished. If a store hangs, the change waits for 5 s. Then the
// object counts as removed, the log names the store, and [Status.Leaving] lists the object until the store has
// finished. Until then its device, or what its namespace exports, cannot be opened with other options or
// reservations ([LeavingError]); a listener on the device waits for it.
//
// The settings of a document ([config.Document.TakeSettings]), such as its transport, limits, congestion control
// and the name of the discovery subsystem, cannot be changed while the target runs: that is a [RestartError].
//
// A file system or a block device that hangs delays only what needs it. A change waits for it for 10 s and fails
// with a [HungError]. Until it has answered, every other change that needs it fails with that error at once. This
// applies to stores, to files of reservations, state and keys, and to the file that is saved. It also applies to
// the opening of an RDMA device, for which the wait is 5 s. A host's command that saves a record fails too.
//
// # Starting
//
// With Options.Wait, these faults are not errors:
//
//   - The file or device of a namespace is missing, empty, in use, or does not answer for 5 s, or its reservations
//     are unreadable.
//   - The address or the RDMA device of a listener is missing, or another process uses it. If no listener can be
//     opened, that is an error.
//
// The target serves the others, reports what it waits for, and retries after 1 s, 2 s and so on up to 30 s, for a
// listener up to 5 s. A file is opened when it has not grown for 0.5 s. [Foresee] reports all this before a start.
//
// Hosts see a namespace that waits as inaccessible, so that they keep its disk. A host whose key cannot be read is
// refused with a status after which hosts retry, and its key is read again in the same way. If [Manager.RereadKeys]
// cannot read a key, the host keeps the previous one.
//
// With Options.WaitDevice, only a listener waits, for an RDMA device. A target that is started from flags uses it.
//
// # Hosts
//
// Since version 6.10, Linux removes a controller, with its disks, if its Connect is refused with Do Not Retry while
// it reconnects. So a start or a change is atomic for hosts:
//
//   - Listeners open after everything else.
//   - A host that a step excludes gets a status for a retry until the last step is done or undone
//     ([target.Target.Change]).
//   - The discovery log does not change until then.
//   - A namespace that is closed and opened with other options, and keeps its identifiers, is inaccessible in
//     between and not removed.
//
// The result of the change decides whether a host stays connected. A subsystem's serial number, model, version and
// range of controller identifiers apply to later controllers.
//
// # Goroutines
//
// A Manager has these goroutines:
//
//   - one or two for each removal that waits for a store;
//   - one for each file or device that it accesses; Close does not wait for those that hang;
//   - one for each namespace, host and listener that waits;
//   - one for each listener on 0.0.0.0 or [::];
//   - one for each address that is served, which reports the loss of the device.
//
// A [Server] has those of net/http. None touches the data path. A mutex makes changes one at a time.
//
// # The API
//
// The socket has mode 0600: whoever can open it can do everything. [DefaultSocket] is the path for a target that is
// started from a file, [ListenBeside] creates the sockets of others, and [Sockets] finds those that are served.
// Bodies are JSON of at most 4 MiB, or 256 KiB for a single host, namespace and so on, and are parsed as strictly
// as files. An error is an object with a code and a message, which the command line prints. openapi.json describes
// the routes.
package control
