// Package control runs a target by a document: it makes the target what a
// [config.Document] describes, changes it while hosts use it, and serves an HTTP
// API for that on a unix socket.
//
// # Changes
//
// Every change, of one host or of everything, is an edit of the document. A
// [Manager] compares the new document with what it has ([config.Diff]), opens
// every new store, and carries the steps out in order. If one fails, those before
// it are undone, last first, and the document stays as it was: the error is a
// [StepError] with the step, why it failed and what could not be undone. Hosts
// that a step had disconnected connect again by themselves.
//
// [Manager.Apply] takes a whole document, and what that lacks is removed: where connected hosts
// use it, and it is not forced, the error is an [InUseError], since a document may have been cut
// short. An edit that removes something by its name is made.
//
// Not undone is the growth of a file, after which only subsystems go. One whose state file another
// takes over goes before: what hosts had set there, and no file keeps, is lost then if a later step fails.
// Listeners of one RDMA device share it; a device is opened with its first listener and
// closed with its last. One that is lost takes its listeners along, which wait for it, and
// nothing else. A listener on 0.0.0.0 or [::] is every address of that family that other
// machines reach, as they come: the machine's addresses are looked at every 2 s.
//
// A removal waits for commands that stores have not finished. Of a store that hangs a
// change waits for 5 s; then what was removed counts as gone, a line in the log names the
// store, [Status.Leaving] has it, and it goes by itself when the store has answered. Until
// then a device cannot be opened again, nor what a namespace exports with other options or
// reservations ([LeavingError]); a listener there waits for it.
//
// The document's transport, limits, congestion control and the name of the discovery
// subsystem cannot be changed
// while the target runs: that is a [RestartError].
//
// A file system or a block device that hangs delays what needs it, and nothing else: a change
// waits for it for 10 s and fails with a [HungError], and so does, at once, every other change that
// needs it until it has answered. That is so of what is exported, of reservations, state and
// keys, of the file that is saved, and of an RDMA device that is opened, which has 5 s. A host's command that saves a record fails so too.
//
// # Starting
//
// With Options.Wait nothing that is wrong with a namespace is an error, be its file or
// device not there, empty, in use, silent for 5 s, or its reservations unreadable; nor is a listener whose
// address or RDMA device is not there, or that another process has, unless none can be opened: the target serves the others, says what it waits
// for, and looks again after 1 s, 2 s and so on up to 30 s, or up to 5 s for a listener. A file is opened when it has not grown for 0.5 s.
// [Foresee] reports that before. To hosts a namespace that waits is there and inaccessible, so that
// those that had it keep it. A host whose key cannot be read is refused until it can, with a
// status after which hosts retry, and is tried again likewise; where [Manager.RereadKeys] cannot read it, it keeps
// the key that it had. With Options.WaitDevice a listener alone waits, for an RDMA
// device: that is how a target of flags starts.
//
// # Hosts
//
// Since 6.10 a Linux host removes a controller, with its disks, whose Connect is refused
// with Do Not Retry while it reconnects. So a start or a change is one for hosts:
// listeners open when everything else is there; a host that a step excludes gets a status
// for a retry until the last one is done or taken back ([target.Target.Change]); the
// discovery log is that of before until then; and a namespace that is closed and opened
// otherwise, and is the same by its identifiers, is away in between and not gone. Who may
// stay connected is judged by what the change has come to, and a subsystem's serial
// number, model, version and range of controller identifiers count for controllers that
// come later.
//
// # Goroutines
//
// A Manager has one or two for each removal that waits for a store, one for each file or
// device that it asks for something, for which Close does not wait when it hangs, one for each namespace,
// each host and each listener that waits, one for each listener on 0.0.0.0 or [::], and one for each
// address that is served, which reports when the device is lost; a [Server] has those of
// net/http. None touches the data path. One mutex makes changes one at a time.
//
// # The API
//
// The socket is made with mode 0600: who may open it may do everything. [DefaultSocket] is
// the one of the target of a file, [ListenBeside] makes those of others, and [Sockets] finds
// what is served. Bodies are
// JSON of at most 4 MiB, those of a host, a namespace and the like of 256 KiB, and are read as strictly as files. An error is an object
// with a code and a sentence, which is the one that the command line prints.
// openapi.json describes the routes; [Client] speaks to them.
package control
